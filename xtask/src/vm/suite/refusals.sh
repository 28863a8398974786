# In the guest: devices that are not ours to write, and that are as they were after every command that could have written.
cd /tmp
zoned=/dev/nullb0
# The superblock of zonefs without any feature: its magic number, its checksum, zeros.
{ printf '\123\106\117\132\005\253\277\131'; head -c 4088 /dev/zero; } > superblock
dd if=superblock of=$zoned bs=4k oflag=direct conv=notrunc 2> /dev/null

# WHAT MESSAGE DEVICE: everything that writes refuses the device, saying so.
refused() {
    what=$1 message=$2 uri=zbd:$3
    blkzone report "$3" > before.txt 2> /dev/null || true
    for command in "put $uri key value" "device format $uri --force" "device reset $uri --all" "device bench $uri"; do
        if zonda $command > /dev/null 2> said.txt; then
            echo "$what: zonda $command is not refused"
            exit 1
        fi
        grep -q "$message" said.txt || { cat said.txt; exit 1; }
    done
    blkzone report "$3" > after.txt 2> /dev/null || true
    cmp before.txt after.txt
    echo "holds: $what is refused: $(tail -1 said.txt)"
}

mount -t zonefs $zoned /mnt
refused "a mounted device" "in use: it is mounted on /mnt" $zoned
zonda device report zbd:$zoned > /dev/null
echo "holds: a mounted device can be looked at"
umount /mnt

dmsetup --noudevsync --noudevrules create held --table "0 $(blockdev --getsz $zoned) linear $zoned 0"
refused "a device that dm is made of" "in use: dm-0 is made of it" $zoned
dmsetup --noudevsync --noudevrules remove held

refused "a partition" "it is a partition; use the whole device" /dev/sda1
refused "a device without zones" "it has no zones" /dev/sda
refused "a character device" "it is a character device; name the block device beside it" /dev/ng0n1

if zonda put zbd:$zoned key value 2> said.txt; then exit 1; fi
grep -q 'is not a Zonda store and was left alone' said.txt || { cat said.txt; exit 1; }
if zonda device format zbd:$zoned 2> said.txt; then exit 1; fi
grep -q -- '1 of 24 zones hold something that is no store; --force empties them' said.txt || { cat said.txt; exit 1; }
echo "holds: a device with a file system is refused: $(tail -1 said.txt)"
zonda device format zbd:$zoned --force
zonda put zbd:$zoned key value
[ "$(zonda get zbd:$zoned key)" = value ]
echo "holds: a device that was emptied when told to is used"

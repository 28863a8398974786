# In the guest: ours, blkzone and fio on the same devices. Every check that holds says so; the first that does not ends it.
cd /tmp
same_report() {
    blkzone report "$1" > blkzone.txt
    zonda device report "zbd:$1" | tail -n +2 > zonda.txt
    # blkzone puts a space before one-digit conditions or not, by version.
    sed 's/zcond: */zcond:/' blkzone.txt > a
    sed 's/zcond: */zcond:/' zonda.txt > b
    if cmp -s a b; then
        echo "holds: report of $1 with $2 ($(wc -l < a) zones)"
    else
        diff a b | head -20
        exit 1
    fi
}
for device in /dev/nvme0n1 /dev/nvme0n2 /dev/nullb0 /dev/sda; do
    name=${device#/dev/}
    size=$(cat "/sys/block/$name/queue/chunk_sectors")
    same_report $device "empty zones"
    blkzone open -o $((size * 2)) -c 1 $device
    blkzone finish -o $((size * 3)) -c 1 $device
    dd if=/dev/zero of=$device bs=4k count=5 seek=$((size / 8 * 4)) oflag=direct conv=notrunc 2> /dev/null
    dd if=/dev/zero of=$device bs=4k count=2 seek=$((size / 8 * 5)) oflag=direct conv=notrunc 2> /dev/null
    blkzone close -o $((size * 5)) -c 1 $device
    dd if=/dev/zero of=$device bs=1M count=3 seek=$((size / 2048 * 6)) oflag=direct conv=notrunc 2> /dev/null
    same_report $device "zones of every state"
    if zonda device format "zbd:$device" 2> refused; then exit 1; fi
    grep -q 'something that is no store' refused
    echo "holds: $device with foreign data is refused"
    zonda device format "zbd:$device" --force
    same_report $device "zones that ours emptied"
done

# fio writes and verifies zones that ours has begun, and ours reads states that fio leaves.
device=/dev/nvme0n1
zonda device bench zbd:$device --operation append --block 4KiB --depth 16 --zones 2 --count 300 --json
dd if=/dev/zero of=$device bs=4k count=7 oflag=direct conv=notrunc 2> /dev/null
fio --name=verify --filename=$device --ioengine=io_uring --direct=1 --zonemode=zbd --rw=write --bs=64k --size=12M \
    --max_open_zones=2 --verify=crc32c --do_verify=1 --minimal > fio.txt
echo "holds: fio writes and verifies after ours"
same_report $device "zones that fio wrote"
zonda device format zbd:$device --force
same_report $device "zones that ours emptied after fio"

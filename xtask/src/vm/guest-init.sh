#!/bin/busybox sh
# First process of the guest: mounts what programs need, loads modules, makes null_blk devices, runs the program, tells
# its exit status through the third port and ends the machine. /vm/conf and /vm/command are written by the runner.
/bin/busybox mount -t devtmpfs d /dev
/bin/busybox mount -t proc p /proc
/bin/busybox mount -t sysfs s /sys
/bin/busybox --install -s /bin 2>/dev/null
export PATH=/bin HOME=/tmp LD_LIBRARY_PATH=/lib/guest
mkdir -p /dev/shm /dev/pts
mount -t tmpfs t /dev/shm
mount -t tmpfs t /tmp
mount -t tracefs t /sys/kernel/tracing 2>/dev/null
. /vm/conf
while read -r module options; do insmod "/lib/modules/$module" $options; done < /vm/modules
mount -t configfs c /sys/kernel/config 2>/dev/null

wait_for() {
    tries=0
    while [ ! -e "$1" ] && [ $tries -lt 1000 ]; do usleep 10000; tries=$((tries + 1)); done
    [ -e "$1" ] || echo "vm: no $1 after 10 s"
}
wait_for /dev/vport0p3
for device in $DEVICES; do wait_for "/dev/$device"; done

# name, then attributes as name=value
null_blk() {
    made=/sys/kernel/config/nullb/$1
    mkdir "$made"
    shift
    for attribute in "$@"; do echo "${attribute#*=}" > "$made/${attribute%%=*}"; done
    echo 1 > "$made/power"
}
. /vm/null_blk

VM_BOOT=1
if [ -n "$CRASH" ]; then
    # The first block of the boot counter's device holds the number of boots so far.
    counter=/dev/$CRASH
    VM_BOOT=$(($(head -c 512 "$counter" | tr -dc 0-9) + 1))
    { echo $VM_BOOT; head -c 4096 /dev/zero; } | dd bs=4096 count=1 iflag=fullblock of="$counter" oflag=direct conv=notrunc 2>/dev/null
fi
export VM_BOOT
echo "boot $VM_BOOT" > /dev/vport0p3
( . /vm/command ) < /dev/null > /dev/vport0p1 2> /dev/vport0p2
status=$?
sync
echo "exit $status" > /dev/vport0p3
poweroff -f

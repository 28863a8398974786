# In the guest: what reaches the drive for `zonda device bench` and for fio, by the kernel's own trace of requests.
cd /tmp
tracing=/sys/kernel/tracing
device=/dev/nvme0n1
number=$(tr : , < /sys/block/nvme0n1/dev)
# Neighbours that happen to be asked for together stay two requests.
echo 2 > /sys/block/nvme0n1/queue/nomerges
echo 16384 > $tracing/buffer_size_kb

# traced KIND BYTES COMMAND: prints how many requests of that kind reached the drive, of what size, how many at once.
traced() {
    kind=$1 bytes=$2
    shift 2
    echo > $tracing/trace
    for event in block_rq_issue block_rq_complete; do echo 1 > $tracing/events/block/$event/enable; done
    "$@" > said.txt || { cat said.txt >&2; exit 1; }
    for event in block_rq_issue block_rq_complete; do echo 0 > $tracing/events/block/$event/enable; done
    awk -v number="$number" -v kind="$kind" -v bytes="$bytes" '
        # What is not in whole blocks is no data: reports of zones, changes of their states, the ends of flushes.
        sub(/.* block_rq_issue: /, "") && $1 == number && substr($2, 1, 1) == kind && $3 > 0 && $3 % 4096 == 0 {
            sizes[$3]++
            count++
            if (++now > most) most = now
        }
        sub(/.* block_rq_complete: /, "") && $1 == number && substr($2, 1, 1) == kind && $6 > 0 && $6 % 8 == 0 { now-- }
        END {
            for (size in sizes) different++
            if (now != 0 || different != 1 || !(bytes in sizes)) {
                for (size in sizes) print sizes[size], "requests of", size, "bytes;", now, "never completed" > "/dev/stderr"
                exit 1
            }
            print count, "requests of", bytes, "bytes, at most", most, "in flight"
        }' $tracing/trace
}
ours() {
    zonda device bench zbd:$device --json "$@"
}
theirs() {
    fio --name=theirs --filename=$device --ioengine=io_uring --direct=1 --zonemode=zbd --minimal "$@"
}
# WHAT, ours, theirs
same() {
    if [ "$2" != "$3" ]; then
        echo "$1, in the last of several tries: ours $2; fio's $3"
        exit 1
    fi
    echo "holds: $1: ours and fio's are $2"
}

# How many were in flight at most is a matter of time too. The drive is slow here (scripts.rs), so that fio's jobs meet at it; should they
# have missed each other all the same, a few more tries are made until both reached the depth that they were asked for. Number and size
# never differ.
tries="1 2 3 4 5 6"

for zones in 1 4; do
    for try in $tries; do
        mine=$(traced W 65536 ours --operation write --block 64KiB --zones $zones --depth $zones --count $((48 * zones)))
        his=$(traced W 65536 theirs --rw=write --bs=64k --numjobs=$zones --offset_increment=1z --size=1z)
        blkzone reset $device
        if [ "$mine" = "$his" ]; then break; fi
    done
    same "writes to $zones zones at a time" "$mine" "$his"
done
for depth in 1 8 32; do
    for try in $tries; do
        mine=$(traced R 4096 ours --operation read --block 4KiB --zones 4 --depth $depth --count 256)
        # Ours leaves the zones empty, and fio reads only what is written.
        theirs --rw=write --bs=512k --size=4z > /dev/null
        his=$(traced R 4096 theirs --rw=randread --bs=4k --size=4z --io_size=1M --norandommap --iodepth=$depth \
            --iodepth_batch_submit=$depth --iodepth_batch_complete_min=1)
        blkzone reset $device
        if [ "$mine" = "$his" ]; then break; fi
    done
    same "reads at depth $depth" "$mine" "$his"
done
# fio does not append: what the drive gets is what the bench says that it has given.
for depth in 1 16 64; do
    for try in $tries; do
        mine=$(traced N 4096 ours --operation append --block 4KiB --zones 2 --depth $depth --count 256)
        if [ "$mine" = "256 requests of 4096 bytes, at most $depth in flight" ]; then break; fi
    done
    if [ "$mine" != "256 requests of 4096 bytes, at most $depth in flight" ]; then
        echo "appends at depth $depth: $mine"
        exit 1
    fi
    grep -q "\"in_flight_max\":$depth," said.txt
    echo "holds: appends at depth $depth: $mine, as the bench says"
done

# In the guest: a store on each device, from making it to a check after reclaim.
cd /tmp
awk 'BEGIN { for (i = 0; i < 6000; i++) printf "key%08d\tvalue %d of the first load, %d\n", (i * 7919) % 6000, i, i * i }' > first.tsv
sort first.tsv > wanted.tsv
for device in /dev/nvme0n1 /dev/nvme0n2 /dev/nullb0 /dev/sda; do
    uri=zbd:$device
    zonda load $uri first.tsv --format tsv --memory 4MiB > /dev/null
    zonda check $uri > /dev/null
    zonda scan $uri > found.tsv
    cmp found.tsv wanted.tsv
    echo "holds: $device holds what was loaded ($(wc -l < found.tsv) pairs)"
    zonda put $uri key00000001 changed
    [ "$(zonda get $uri key00000001)" = changed ]
    echo "holds: $device changes"
    if zonda device format $uri 2> refused; then exit 1; fi
    grep -q 'hold store' refused
    echo "holds: $device with a store is refused"
    zonda device format $uri --force
    said=$(testkit real overwrite $uri)
    echo "holds: $device overwritten with reclaim, reopened and checked: $said"
done

# In the guest: the emulated drive does not lose its cache, so what it could have lost is replayed from a record.
said=$(testkit real replay zbd:/dev/nvme0n1 /tmp/cut.zonda)
echo "holds: $said"
zonda device format zbd:/dev/nvme0n1 --force
if testkit real replay zbd:/dev/nvme0n1 /tmp/cut.zonda --puts 1500 --cuts 10 --forget-flushes 2> lost; then
    echo "nothing is lost although flushes are forgotten: the replay shows nothing"
    exit 1
fi
grep -q 'acknowledged\|wrong' lost
echo "holds: without flushes: $(cut -c1-100 lost)"

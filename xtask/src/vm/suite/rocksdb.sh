# In the guest: stock db_bench on each device through the plugin; what one process has synced another finds, after kill -9 too.
cd /tmp
export ZONDA_REPORT=/tmp/report
options="--db=/db --num=20000 --value_size=100 --write_buffer_size=262144 --target_file_size_base=262144
    --max_bytes_for_level_base=1048576 --compression_type=none --threads=1"
bench() {
    named=$1
    shift
    LD_PRELOAD=/bin/libzonda_rocksdb.so db_bench --fs_uri="zonda://$named" $options "$@"
}
# Waits until a command succeeds while the writer runs.
until_it() {
    until "$@"; do
        kill -0 $writer 2> /dev/null || { cat killed; exit 1; }
        usleep 100000
    done
}
is_in_use() { zonda fs rm $uri /nothing 2>&1 | grep -q 'in use'; }
is_listed() { zonda fs ls $uri /synced 2> /dev/null | grep -q CURRENT; }
# How many synced puts db_bench has told of.
synced() { tr '\r' '\n' < killed | grep -o 'finished [0-9]* ops' | tail -n 1 | grep -o '[0-9]*'; }
has_synced_some() { [ "$(synced)" -ge 300 ] 2> /dev/null; }
for device in /dev/nvme0n1 /dev/nvme0n2 /dev/nullb0; do
    uri=zbd:$device
    bench "$uri?create=on" --benchmarks=fillseq,overwrite,overwrite,readrandom > said 2>&1 || { cat said; exit 1; }
    grep -q '(20000 of 20000 found)' said || { cat said; exit 1; }
    echo "holds: $device filled, overwritten twice and read by db_bench"
    zonda fs check $uri > /dev/null
    LD_PRELOAD=/bin/libzonda_rocksdb.so ldb --fs_uri="zonda://$uri?read_only=on" --db=/db checkconsistency > said 2>&1 || { cat said; exit 1; }
    grep -q '^OK' said || { cat said; exit 1; }
    resets=$(grep -o '"zones_reset": [0-9]*' report | grep -o '[0-9]*$' | sort -n | tail -n 1)
    [ "$resets" -gt 5 ] || { cat report; exit 1; }
    rm report
    echo "holds: $device checked by ldb and zonda fs, $resets zones reset"
    # New keys, synced one by one by a process that is ended in their middle; meanwhile somebody reads beside it.
    bench $uri --db=/synced --benchmarks=fillseq --num=1000000 --sync=1 > killed 2>&1 &
    writer=$!
    # Who asks whether it is in use opens it to write: not before the writer has.
    until_it is_listed
    until_it is_in_use
    echo "holds: $device is listed beside a process that writes"
    until_it has_synced_some
    killall -9 db_bench
    wait $writer 2> /dev/null || true
    told=$(synced)
    bench $uri --db=/synced --use_existing_db=1 --benchmarks=readrandom --num=$told --reads=$told > said 2>&1 || { cat said; exit 1; }
    grep -q "($told of $told found)" said || { cat said; exit 1; }
    bench $uri --use_existing_db=1 --benchmarks=readrandom > said 2>&1 || { cat said; exit 1; }
    grep -q '(20000 of 20000 found)' said || { cat said; exit 1; }
    zonda fs check $uri > /dev/null
    echo "holds: $device has all of $told synced puts after kill -9"
done

# In the guest: a file store on each device, from making it to a check after cleaning, and out of one device into the next.
cd /tmp
for number in 1 2 3 4 5 6; do head -c $((number * 400000 + 77)) /dev/urandom > file$number; done
for device in /dev/nvme0n1 /dev/nvme0n2 /dev/nullb0 /dev/sda; do
    uri=zbd:$device
    zonda fs mkfs $uri
    for number in 1 2 3 4 5 6; do zonda fs cp $uri file$number store:/file$number > /dev/null; done
    for number in 1 2 3 4 5 6; do zonda fs cat $uri /file$number | cmp - file$number; done
    echo "holds: $device holds the files that were copied into it"
    if zonda fs mkfs $uri 2> refused; then exit 1; fi
    zonda device format $uri 2>> refused && exit 1
    echo "holds: $device with files is refused"
    # More than the device holds, around files that stay: zones are emptied and used again.
    for round in 1 2 3 4 5 6 7 8 9 10; do
        for number in 2 4 6; do zonda fs cp $uri file$number store:/file$number > /dev/null; done
    done
    zonda fs rm $uri /file2
    if zonda fs cat $uri /file2 > none 2>&1; then exit 1; fi
    for number in 1 3 4 5 6; do zonda fs cat $uri /file$number | cmp - file$number; done
    zonda fs check $uri > /dev/null
    resets=$(zonda fs df $uri --json | grep -o '"copied":"no","value":[0-9]*' | grep -o '[0-9]*$')
    [ "$resets" -gt 5 ]
    echo "holds: $device overwritten and checked, $resets zones reset"
    if [ -d copy ]; then
        zonda fs restore $uri copy --into /restored > /dev/null
        for number in 1 3 4 5 6; do zonda fs cat $uri /restored/file$number | cmp - file$number; done
        echo "holds: $device takes the backup of another"
        rm -r copy
    fi
    zonda fs rm $uri --recursive /restored 2> /dev/null || true
    zonda fs backup $uri copy > /dev/null
    cmp copy/file6 file6
    echo "holds: $device is backed up"
done

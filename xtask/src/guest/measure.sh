# In the guest: operations of Bowline's verbs transport beside perftest's. Every figure is a line
# "measured OPERATION PROGRAM NAME VALUE", of which the host makes a table. COUNT, CALLS and PAIRS are
# set in front.
LARGE=$((2 * COUNT))

fail() {
    echo "measure: $*"
    exit 1
}

# perftest PROGRAM COUNT [VARIABLE=VALUE..]: one run between the two devices; what the client prints
# is in /tmp/client.
perftest() {
    program=$1 count=$2
    shift 2
    set -- "$@" "$program" -x 1 -s 8 -n "$count" --use_old_post_send
    "$program" -d rxe1 -x 1 -s 8 -n "$count" --use_old_post_send >/tmp/server 2>&1 &
    server=$!
    # Port 18515, listening. To try a connection would use up the one that the server waits for.
    tries=0
    until grep -q ':4853 .* 0A ' /proc/net/tcp /proc/net/tcp6; do
        tries=$((tries + 1))
        [ $tries -lt 600 ] || fail "the server of $program does not listen: $(cat /tmp/server)"
        sleep 0.05
    done
    env "$@" -d rxe0 127.0.0.1 >/tmp/client 2>&1 || fail "$program: $(cat /tmp/client)"
    wait $server || fail "the server of $program: $(cat /tmp/server)"
}

# counts OPERATION PROGRAM RUN: the file of counts that a run has left.
counts() {
    [ -s /tmp/counts ] || fail "nothing was counted of $2"
    while read -r name value; do
        echo "measured $1 $2 $name.$3 $value"
    done </tmp/counts
    rm /tmp/counts
}

# What the library's functions are called with: two runs, one of them twice as long.
for run in $COUNT $LARGE; do
    for operation in send put; do
        yardstick=ib_send_lat
        [ $operation = send ] || yardstick=ib_write_lat
        perftest $yardstick $run LD_PRELOAD=./count_verbs.so COUNT_VERBS=/tmp/counts
        counts $operation perftest $run
        LD_PRELOAD=./count_verbs.so COUNT_VERBS=/tmp/counts \
            ./verbs_ops $operation $run rxe0 rxe1 >/tmp/client 2>&1 ||
            fail "verbs_ops: $(cat /tmp/client)"
        counts $operation bowline $run
    done
done

# Instructions of this side's calls, by the file that they are in.
for run in $CALLS $((2 * CALLS)); do
    for measured in send:send send:progress put:put put:progress; do
        operation=${measured%:*} call=${measured#*:}
        valgrind.bin --tool=callgrind --callgrind-out-file=/tmp/callgrind --compress-strings=no \
            --compress-pos=no --toggle-collect="*measured_$call*" \
            ./verbs_ops $operation $run rxe0 rxe1 paced >/tmp/client 2>&1 ||
            fail "verbs_ops under valgrind: $(cat /tmp/client)"
        [ -s /tmp/callgrind ] || fail "callgrind left nothing: $(cat /tmp/client)"
        # The line behind `calls=` is what the called functions cost, which stands with them.
        awk -v what="$operation bowline" -v name="instructions.$call" -v run="$run" '
            /^ob=/ { file = substr($0, 4); sub(".*/", "", file); next }
            /^calls=/ { getline; next }
            /^[0-9]+ [0-9]+$/ { cost[file] += $2 }
            END {
                for (file in cost)
                    printf "measured %s %s.%s.%s %d\n", what, name, file, run, cost[file]
            }' /tmp/callgrind
        rm /tmp/callgrind
    done
done

# Times, in pairs, one after the other.
pair=0
while [ $pair -lt "$PAIRS" ]; do
    pair=$((pair + 1))
    for operation in send put; do
        yardstick=ib_send_lat
        [ $operation = send ] || yardstick=ib_write_lat
        perftest $yardstick $COUNT
        # Columns: bytes, iterations, shortest, longest, median, in microseconds.
        awk -v operation=$operation '$1 == 8 && $2 > 0 && $5 > 0 {
            printf "measured %s perftest median_ns %d\n", operation, $5 * 1000
        }' /tmp/client
        ./verbs_ops $operation $COUNT rxe0 rxe1 >/tmp/client 2>&1 ||
            fail "verbs_ops: $(cat /tmp/client)"
        sed -n "s/^median_ns /measured $operation bowline median_ns /p" /tmp/client
    done
done
exit 0

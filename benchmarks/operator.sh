#!/bin/sh
# What an operator of docs/federation.md does, from nothing to a trained model, over a slow link, with its times.
#   sh benchmarks/operator.sh FOLDER [SETTING=VALUE ...]      as root; FOLDER is new; `hush` is on the PATH
# Three sites in one network namespace, the coordinator in another, 50 ms and a loss of 1 % each way between them.
set -eu
here=$(cd "$(dirname "$0")/.." && pwd)
folder=$1; shift
settings=$(for one in "$@"; do printf ' --set %s' "$one"; done)
mkdir "$folder"; cd "$folder"
python3 "$here/benchmarks/link.py" hush-hub hush-sites >link.log & started=$!
trap 'kill $started 2>/dev/null; wait' EXIT
trap 'exit 1' INT TERM
fingerprint() { sed -n 's/^fingerprint of the [a-z]*: //p' "$1"; }
now() { date +%s.%N; }
since() { echo "$(now) $1" | awk -v what="$2" '{ printf "%-44s %6.1f s\n", what, $1 - $2 }'; }
until grep -q ready link.log; do sleep 0.1; done

begun=$(now)
hush federation init fed --host 10.77.0.1 >fed.txt
for site in a b c; do
  hush federation request $site >$site.txt
  hush federation approve fed/coordinator $site/request.json --fingerprint "$(fingerprint $site.txt)" >approved.txt
  hush federation accept $site fed/coordinator/sites/$site.kit.json --fingerprint "$(fingerprint fed.txt)" >>$site.txt
  cp "$here/examples/federation/policy.toml" $site/
done
since "$begun" "kits of three sites and a coordinator"
begun=$(now)
hush data deal digits rows --site a --site b --site c >rows.txt
since "$begun" "rows"
begun=$(now)
ip netns exec hush-hub hush server "$here/examples/federation/experiment.toml" --kit fed/coordinator \
  --data rows/test.npz --out run --log-json $settings >server.jsonl 2>server.err & server=$!
started="$started $server"
for site in a b c; do
  ip netns exec hush-sites hush client --kit $site --data rows/$site.npz --log-json >$site.jsonl 2>$site.err &
  started="$started $!"
done
wait $server || { cat server.err; exit 1; }
since "$begun" "from the first command to a trained model"
python3 - <<'END'
import json
events = [json.loads(line) for line in open("server.jsonl")]
at = lambda name: [one["time"] for one in events if one["event"] == name]
rounds = at("round")
print(f"{'  of it until every site had joined':<44} {at('joined')[-1] - at('listening')[0]:6.1f} s after listening")
print(f"{'  of it until every site had accepted':<44} {at('accepted')[-1] - at('joined')[-1]:6.1f} s")
print(f"{'  of it in rounds':<44} {rounds[-1] - at('charter')[0]:6.1f} s, {len(rounds)} rounds")
print(events[[one['event'] for one in events].index('round') + len(rounds) - 1]["facts"])
END

# A process of serve.
# shellcheck shell=bash disable=SC2154

serve_setup() {
	"$dir/watership" setup -c "$project/scripts/cluster.d/watership.yaml" >"$dir/logs/setup.log" 2>&1 || die "watership setup failed: see $dir/logs/setup.log"
}

serve_configure() {
	:
}

serve_inside() {
	exec env -i PATH="$PATH" HOME=/nonexistent GOMAXPROCS=1 WATERSHIP_HTTP_LISTEN="$(address "$1"):8181" \
		"$dir/watership" serve -c "$project/scripts/cluster.d/watership.yaml"
}

serve_answers() {
	curl -fsS -m 5 -o /dev/null "http://$(address "$1"):8181/readyz" 2>/dev/null
}

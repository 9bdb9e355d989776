# Servers in containers, if a docker engine is available. Each checkout has its own project,
# with the ports of the state file.
# shellcheck shell=bash disable=SC2154

compose() {
	local key
	for key in "${!state[@]}"; do
		export "PORT_$key=${state[$key]}"
	done
	TLS_DIR=$(tls_dir)
	export TLS_DIR
	export WATERSHIP_TEST_STORE_HEAP=${WATERSHIP_TEST_STORE_HEAP:-1g}
	docker compose --project-name "watership-$(cksum <<<"$dir" | cut -d' ' -f1)" \
		--file "$parts/compose.yaml" "$@" 8>&- 9<&-
}

compose_tools() {
	command -v curl >/dev/null || die "install curl"
	command -v openssl >/dev/null || die "install openssl"
}

compose_fetch() {
	: # `compose up` pulls missing images
}

compose_start() {
	[[ $1 != rabbitmq4 ]] || make_certificates
	compose up --detach --quiet-pull "$1" >>"$dir/logs/$1.log" 2>&1 || die "$1 did not start: see $dir/logs/$1.log"
}

compose_alive() {
	[[ -n $(compose ps --quiet --status running "$1" 2>/dev/null) ]]
}

compose_stop() {
	compose stop --timeout 60 "$1" >>"$dir/logs/$1.log" 2>&1 || die "$1 does not stop: see $dir/logs/$1.log"
}

compose_kill() {
	! compose_alive "$1" || compose kill "$1" >>"$dir/logs/$1.log" 2>&1 || die "$1 does not stop: see $dir/logs/$1.log"
}

compose_down() {
	compose down --volumes --timeout 1 >>"$dir/logs/compose.log" 2>&1 || die "docker compose down failed: see $dir/logs/compose.log"
}

compose_ctl() {
	compose exec --no-TTY "$1" rabbitmqctl "${@:2}"
}

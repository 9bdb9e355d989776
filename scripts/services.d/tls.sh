# Certificates for the TLS listener of rabbitmq4, which requires client certificates: of a
# private certificate authority of this checkout, of the server and of a client. They are
# deleted with the servers.
# shellcheck shell=bash disable=SC2154

tls_dir() {
	echo "$dir/tls"
}

make_certificates() {
	local at
	at=$(tls_dir)
	[[ ! -s $at/client.pem ]] || return 0
	mkdir -p "$at"
	{
		certificate "$at/ca" watership-tests -addext basicConstraints=critical,CA:TRUE -addext keyUsage=critical,keyCertSign &&
			certificate "$at/server" localhost -CA "$at/ca.pem" -CAkey "$at/ca.key" \
				-addext subjectAltName=DNS:localhost,IP:127.0.0.1 -addext extendedKeyUsage=serverAuth &&
			certificate "$at/client" guest -CA "$at/ca.pem" -CAkey "$at/ca.key" -addext extendedKeyUsage=clientAuth
	} >"$dir/logs/tls.log" 2>&1 || die "openssl could not create the certificates: see $dir/logs/tls.log"
	chmod 0644 "$at"/*.key # a server in a container has another user; the keys are only for tests
}

# certificate FILE NAME OPTION...: creates FILE.pem and FILE.key, without the extensions
# for a certificate authority of openssl's default configuration.
certificate() {
	openssl req -config <(printf '[req]\ndistinguished_name = name\n[name]\n') -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 3650 \
		-keyout "$1.key" -out "$1.pem" -subj "/CN=$2" "${@:3}"
}

#!/bin/sh
# dpkg calls it with "configure" and the former version, rpm with the number of installed versions.
set -e
if [ -d /run/systemd/system ]; then
	systemctl daemon-reload || true
	systemctl try-restart watership.service || true # only if it runs
fi
if [ "$1" = configure ] && [ -z "$2" ] || [ "$1" = 1 ]; then
	cat <<-'END'
		Watership is installed, and not started yet:
		  1. Name RabbitMQ and Elasticsearch in /etc/watership/watership.yaml.
		  2. Prepare them:  sudo -u watership watership setup --config /etc/watership/watership.yaml
		  3. Start it:      sudo systemctl enable --now watership
	END
fi

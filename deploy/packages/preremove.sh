#!/bin/sh
# dpkg calls it with "remove" or "upgrade", rpm with the number of versions that stay.
set -e
if [ "$1" = remove ] || [ "$1" = 0 ]; then
	if [ -d /run/systemd/system ]; then
		systemctl disable --now watership.service || true
	fi
fi

#!/bin/sh
# A removal keeps the configuration and the state; a purge, which only dpkg has, deletes both. The
# user stays, so that no other gets its number and the files that it has left elsewhere.
set -e
if [ -d /run/systemd/system ]; then
	systemctl daemon-reload || true
fi
if [ "$1" = purge ]; then
	rm -rf /var/lib/watership /etc/watership
fi

#!/bin/sh
# Before the files, which belong to the group.
set -e
getent group watership >/dev/null || groupadd --system watership
getent passwd watership >/dev/null ||
	useradd --system --gid watership --home-dir /var/lib/watership --no-create-home --shell /usr/sbin/nologin watership

#!/bin/sh
# Installs what the virtual machine tests need on Debian or Ubuntu: qemu, and in
# /var/cache/unthrottle-vmtest a kernel image and systemd. Run it as root. It does
# nothing when all are there.
#
#   setup.sh               the distribution's own kernel for virtual machines
#   setup.sh --backports   also the one of Debian's backports, which is newer:
#                          Debian 12's own (6.1) has no cpu.stat.local
#
# The kernel package is downloaded and one file is taken out of it, instead of
# installing it. Installing would run the hooks that build an initramfs and write
# the boot loader's menu: slow, wrong in a container, and not wanted on a machine
# that boots from another kernel. It also makes the image readable for everyone,
# which Ubuntu's /boot is not. qemu is installed as usual.
#
# systemd, and the packages that it depends on, are unpacked into the folder systemd
# there, and not installed either: they are for the machine, not for the host.
set -eu

dir=/var/cache/unthrottle-vmtest
backports=no
case "${1-}" in
'') ;;
--backports) backports=yes ;;
*)
	echo "usage: setup.sh [--backports]" >&2
	exit 2
	;;
esac

main() {
	mkdir -p "$dir"
	have qemu-system-x86_64 || install_qemu
	[ -e "$dir/stock" ] || fetch_kernel stock
	[ -e "$dir/systemd" ] || fetch_systemd
	[ $backports = no ] || [ -e "$dir/backports" ] || {
		backports_source
		fetch_kernel backports
	}
	echo "kernels:"
	ls -l "$dir"/vmlinuz-*
	echo "systemd:"
	ls -ld "$dir/systemd"
}

have() { command -v "$1" >/dev/null; }

updated=no
update() {
	[ $updated = yes ] || apt-get update -q
	updated=yes
}

install_qemu() {
	update
	DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends qemu-system-x86
}

# A private configuration with nothing but the backports of this release, taken
# from the same server as the release itself. The system's own is not changed.
keyring=/usr/share/keyrings/debian-archive-keyring.gpg
backports_source() {
	. /etc/os-release
	update
	[ "$ID" = debian ] || fail "--backports is for Debian, this is $ID"
	uri=$(apt-get indextargets --format '$(REPO_URI)' \
		"Created-By: Packages" "Codename: $VERSION_CODENAME" "Component: main" | head -n 1)
	[ -n "$uri" ] || fail "no apt source for $VERSION_CODENAME main was found"
	mkdir -p "$tmp/lists/partial"
	echo "deb [signed-by=$keyring] $uri $VERSION_CODENAME-backports main" >"$tmp/sources.list"
	cat >"$tmp/apt.conf" <<-EOF
		Dir::Etc::sourcelist "$tmp/sources.list";
		Dir::Etc::sourceparts "-";
		Dir::State::lists "$tmp/lists";
		Dir::Cache::pkgcache "";
		Dir::Cache::srcpkgcache "";
		APT::Sandbox::User "root";
	EOF
	export APT_CONFIG="$tmp/apt.conf"
	apt-get update -q
}

# fetch_kernel NAME puts vmlinuz-VERSION into $dir and leaves its name in $dir/NAME,
# which says that this was done.
fetch_kernel() {
	update
	image=$(image_package)
	[ -n "$image" ] || fail "no kernel package for virtual machines was found"
	rm -rf "$tmp/kernel"
	mkdir "$tmp/kernel"
	# As root, apt downloads as another user where it can; $tmp is ours alone.
	(cd "$tmp/kernel" && apt-get download -q -o APT::Sandbox::User=root "$image")
	dpkg-deb --extract "$tmp"/kernel/*.deb "$tmp/kernel"
	version=${image#linux-image-}
	vmlinuz="$tmp/kernel/boot/vmlinuz-$version"
	[ -e "$vmlinuz" ] || fail "$image holds no boot/vmlinuz-$version"
	# Written under another name first, so that a half file is never taken for a kernel.
	install -m 644 "$vmlinuz" "$dir/new"
	mv "$dir/new" "$dir/vmlinuz-$version"
	echo "vmlinuz-$version" >"$dir/$1"
}

# fetch_systemd unpacks systemd, a bus, a shell and its small programs, with what
# they depend on, into $dir/systemd. An empty list of what is installed lets apt
# name everything, not just what this host lacks.
fetch_systemd() {
	update
	debs="$tmp/debs"
	root="$tmp/root"
	mkdir -p "$debs/partial" "$root/usr"
	apt-get -q -y --no-install-recommends --download-only \
		-o Dir::State::status=/dev/null -o Dir::Cache::pkgcache= -o Dir::Cache::srcpkgcache= \
		-o Dir::Cache::archives="$debs" -o APT::Sandbox::User=root \
		install systemd dbus dash coreutils
	# The folders are merged below /usr, as on an installed Debian.
	for folder in bin sbin lib lib64; do
		mkdir "$root/usr/$folder"
		ln -s "usr/$folder" "$root/$folder"
	done
	for deb in "$debs"/*.deb; do
		dpkg-deb --fsys-tarfile "$deb" | tar -x -C "$root" --keep-directory-symlink \
			--exclude=./usr/share/doc --exclude=./usr/share/man --exclude=./usr/share/info \
			--exclude=./usr/share/locale --exclude=./usr/share/zoneinfo --exclude='*perl*' --exclude='*/gconv'
	done
	[ -x "$root/usr/lib/systemd/systemd" ] || fail "the systemd package holds no usr/lib/systemd/systemd"
	# Moved as a whole, so that a half tree is never taken for systemd.
	rm -rf "$dir/systemd.new"
	cp -a "$root" "$dir/systemd.new"
	chmod -R a+rX,u-s,g-s "$dir/systemd.new" # nobody here needs a program that runs as root
	mv "$dir/systemd.new" "$dir/systemd"
}

# image_package prints the package that holds the image: the dependency of the
# meta-package of Debian (cloud-amd64) or Ubuntu (virtual).
image_package() {
	for meta in linux-image-cloud-amd64 linux-image-virtual; do
		image=$(apt-cache depends "$meta" 2>/dev/null |
			sed -n 's/^ *Depends: \(linux-image-[0-9][^ ]*\)$/\1/p' | head -n 1)
		[ -z "$image" ] || {
			echo "$image"
			return
		}
	done
}

fail() {
	echo "setup.sh: error: $*" >&2
	exit 1
}

tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
main

// Package vmtest answers three questions about a real kernel with cgroup v2 and many
// CPUs. Does the library read, decide and follow CPU limits correctly there? And
// does `unthrottle explain` tell the truth: is the limit the one it names, and is
// the GOMAXPROCS that it predicts the one that real programs have? And does the agent
// of `kubectl unthrottle` see the pods of such a node, from inside of one?
//
// Most test machines cannot answer them. They have two CPUs, their cgroup files
// are read-only, or the cpu controller still sits on version 1. So this package
// boots a small virtual machine and runs the tests of package guest inside it.
//
// A second machine has Debian's systemd as its first process. There the limits that
// `unthrottle run --limit-with=systemd` has systemd make are tested, as root and as
// users with and without a manager that has the cpu controller.
//
// In go a kernel image (vmlinuz), qemu and a number of CPUs. Out comes one
// result for each guest test, with its output, and an error when the machine
// did not get to the end. The pieces:
//
//   - Subjects are the programs to explain: one source (folder subject), built by
//     Go 1.24 to 1.27, with an old go line, with automaxprocs and with package
//     auto. Subject.Build makes each in a module of its own, outside of the
//     workspace.
//   - Build compiles package guest as a test binary, package guestinit as the
//     machine's first process, and the commands unthrottle and kubectl-unthrottle,
//     all static, and packs them and the subjects into an initramfs. The archive is written here; no cpio
//     program is needed.
//   - BuildSystemd packs, in place of the subjects, systemd with a bus, a shell
//     and the libraries that these are linked with. guestinit is a service
//     there. There is no root file system besides the initramfs, and no udev,
//     journal, logind or PAM: a user's manager is started by its unit, and what
//     PAM would have told it is in a drop-in.
//   - Boot starts qemu without acceleration, reads what the guest writes to its
//     first serial port, and waits for the end. Kernel messages go to the
//     second serial port, so they cannot mix with the results.
//   - ParseTests splits the output of a test binary into tests.
//
// The tests of explain put every subject into every layout: limits on its own
// group or above, more CPUs than limit and the other way round, CPU sets,
// containers of the present kind and in the host's cgroup namespace, no cgroups at
// all. They compare what explain says, from outside and from inside, with what the
// program prints. A line "predicted=real" for each layout shows both (go test -v).
//
// The agent of kubectl unthrottle runs as in a DaemonSet's pod: in a cgroup namespace
// of its own, among all processes of the machine. Its pods are groups with the names
// that a kubelet gives them, and a kubelet that only lists them.
//
// Kernel modules are not loaded, so the kernel must have its 8250 serial driver
// and cgroups built in. The kernels of Debian and Ubuntu do.
//
// What it does not do: it measures nothing. An emulated machine with sixteen
// CPUs on two real ones is slow and uneven, so no test asserts a speed. It has
// no disk and no network, and it does not cover cgroup v1.
//
// # Running it
//
//	sudo ./setup.sh                         # qemu, a kernel and systemd, once
//	go test -count 1 -v .                             # 4 and 16 CPUs
//	go test -count 1 -v -run TestVM/cpus=4 .          # one machine
//	go test -count 1 -v -run TestSystemd .            # the one with systemd
//	UNTHROTTLE_VM_RUN=TestWatch go test -count 1 -v . # some guest tests
//
// The environment:
//
//	UNTHROTTLE_VM_KERNEL   the vmlinuz to boot; default: the newest one that
//	                       setup.sh left in KernelDir, else in /boot; all: each
//	                       in KernelDir, the newest with 16 CPUs and the others with 4
//	UNTHROTTLE_VM_RUN      a -test.run pattern for the guest tests; no spaces.
//	                       Tests whose names begin with TestScope are those of
//	                       the machine with systemd; a pattern is for one kind
//	UNTHROTTLE_REQUIRE_VM  1: fail instead of skip when qemu, the kernel, systemd,
//	                       or something that a subject needs is missing
//
// The subjects need four Go toolchains and one module, which the go command fetches
// when they are not here yet. A subject that is not available is left out and shown
// as a skip with the reason.
//
// One boot takes about a minute, with many CPUs two. A machine uses one CPU of the
// host, so as many run at a time as go test's -parallel says. On a kernel that is not the newest one
// here, the longest test (TestExplain) and the machine with systemd are left out,
// unless UNTHROTTLE_VM_RUN names tests.
//
// Two facilities depend on the kernel's age. cpu.stat.local, which the tests of
// hidden limits need, is not in Debian 12's own kernel (6.1); there those parts
// skip and say so. `setup.sh --backports` fetches a newer kernel.
package vmtest

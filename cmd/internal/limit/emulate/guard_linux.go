package emulate

import (
	"fmt"
	"io"
	"os/exec"
	"strconv"
	"syscall"
)

// guard is a process that ends what is left of the program if we are killed: nothing would hold it any longer, and what is stopped would
// stay so. It is a shell that reads from a pipe which only we have open: it sleeps until a line comes, and the end of the pipe is our end.
// It is in a session of its own, so that no key of a terminal reaches it.
//
// It is a shell and not this program once more: that would take a hook in main or an init of every program that imports
// us, and ten times the memory. All that the shell does is built in; it starts nothing.
type guard struct {
	cmd  *exec.Cmd
	pipe io.WriteCloser
}

const shell = "/bin/sh"

// guardScript knows a process by its number and its start, as numbers are used again. The start is field 22 of the stat file, the 20th
// after the name. The last line that is read has no newline if we were killed while writing it; then read fails, and the line is dropped:
// what it would have named is not stopped yet. Those that were not named, daemons too, have the tag, which is a number that no other
// process has: see tree. While it looks for them some may start others, so it looks again; one that has ended and is not yet waited for is
// found each time.
const guardScript = `trap '' INT QUIT HUP TERM TSTP TTIN TTOU
tag=$1 held=' '
while read -r what pid start; do
	case $what in
	hold) held="$held$pid:$start " ;;
	drop)
		case $held in
		*" $pid:"*)
			head=${held%%" $pid:"*}
			tail=${held#*" $pid:"}
			held="$head ${tail#* }" ;;
		esac ;;
	done) exit 0 ;;
	esac
done
for one in $held; do
	pid=${one%%:*}
	{ read -r line <"/proc/$pid/stat"; } 2>/dev/null || continue
	set -- ${line##*) }
	[ "${20}" = "${one#*:}" ] && kill -KILL "$pid"
done
[ "$tag" = 0 ] && exit 0
for round in 1 2 3 4 5; do
	for dir in /proc/[0-9]*; do
		soft=
		{ while read -r a b c soft rest; do
			[ "$a $b $c" = "Max realtime timeout" ] && break
			soft=
		done <"$dir/limits"; } 2>/dev/null || continue
		[ "$soft" = "$tag" ] && kill -KILL "${dir#/proc/}"
	done
done
`

func (g *guard) start(tag uint64) error {
	cmd := exec.Command(shell, "-c", guardScript, "sh", strconv.FormatUint(tag, 10))
	cmd.Dir, cmd.Env = "/", []string{}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	pipe, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("starting the guard that ends the program if this process is killed: %w", err)
	}
	g.cmd, g.pipe = cmd, pipe
	return nil
}

// hold tells the guard that a process will be stopped, drop that it no longer will be.
func (g *guard) hold(m *member) error { return g.tell("hold %d %d\n", m.pid, m.start) }
func (g *guard) drop(m *member) error { return g.tell("drop %d %d\n", m.pid, m.start) }

func (g *guard) tell(format string, args ...any) error {
	if g.cmd == nil {
		return nil
	}
	_, err := fmt.Fprintf(g.pipe, format, args...)
	return err
}

// stop ends the guard. It continues nothing then.
func (g *guard) stop() {
	if g.cmd == nil {
		return
	}
	g.tell("done\n")
	g.pipe.Close()
	g.cmd.Wait()
	g.cmd = nil
}

// lost drops a guard that no longer listens.
func (g *guard) lost() {
	g.pipe.Close()
	g.cmd.Process.Kill()
	g.cmd.Wait()
	g.cmd = nil
}

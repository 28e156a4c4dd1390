//go:build !linux

package runner

import (
	"errors"
	"os"
	"syscall"
)

var errNotSupported = errors.New("only Linux has CPU limits")

func placeInCgroup(Limit) (place, error) { return nil, Refused{errNotSupported} }
func placeInScope(Limit) (place, error)  { return nil, Refused{errNotSupported} }
func placeEmulated(Limit) (place, error) { return nil, Refused{errNotSupported} }

func processAttr() *syscall.SysProcAttr { return nil }

func awaitExit(int) {}

func exitDetails(state *os.ProcessState, res *Result) {
	if res.ExitCode < 0 {
		res.ExitCode = 128 // a signal ended it
	}
}

func setAffinity([]int) error { return nil }

func checkCpuset(cpus []int) error {
	if len(cpus) > 0 {
		return Refused{errNotSupported}
	}
	return nil
}

func fromTerminal(sig os.Signal) bool { return sig == os.Interrupt }

func managedBySystemd() bool { return false }

// Sweep does nothing: there are no groups.
func Sweep() {}

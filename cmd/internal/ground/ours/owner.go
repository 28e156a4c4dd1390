package ours

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
)

// What we make and must remove again carries its owner's name: the process namespace, the process's number, and when it was started, since
// numbers are reused. So what a killed process has left behind is recognised as ours and as abandoned.

var made atomic.Int64

// Name makes a name that shows whose a thing is, and that no other thing has.
func Name(prefix string) string {
	return fmt.Sprintf("%s%s-%d-%s-%d", prefix, pidNamespace(), os.Getpid(), StartTime(os.Getpid()), made.Add(1))
}

// Abandoned reports whether a name was made by Name, in a process that is gone. Without /proc it is never sure.
func Abandoned(prefix, name string) bool {
	rest, ok := strings.CutPrefix(name, prefix)
	part := strings.Split(rest, "-")
	if !ok || len(part) != 4 || part[0] == "" || part[0] != pidNamespace() {
		return false
	}
	pid, err := strconv.Atoi(part[1])
	return err == nil && StartTime(pid) != part[2]
}

func pidNamespace() string {
	link, _ := os.Readlink("/proc/self/ns/pid") // pid:[4026531836]
	return strings.Trim(strings.TrimPrefix(link, "pid:"), "[]")
}

// StartTime is when a process was started, in the kernel's ticks since it booted; "": there is no such process. It is the 22nd field of
// /proc/PID/stat, the 20th after the name, which may hold anything but ends with the last bracket.
func StartTime(pid int) string {
	data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return ""
	}
	field := strings.Fields(string(data[strings.LastIndexByte(string(data), ')')+1:]))
	if len(field) < 20 || field[0] == "Z" || field[0] == "X" {
		return ""
	}
	return field[19]
}

package procs

import (
	"errors"
	"io/fs"
	"strconv"
	"strings"

	"github.com/unthrottle/unthrottle/internal/foreign"
)

// StartsGo looks for a Go program among a process and its current descendants. blind: one of them can't be looked into. The kernel's own
// lists of children are read, which is quick enough to be done repeatedly.
func (programs *Programs) StartsGo(root string, pid int) (found, blind bool) {
	unseen := descend(root, pid, func(pid int) bool {
		_, err := programs.file(root, Dir("", pid)+"/exe", false)
		if errors.Is(err, fs.ErrPermission) {
			blind = true
		}
		found = err == nil
		return !found
	})
	return found, !found && (blind || unseen)
}

// Descendants are a process, what it has started, and what that has, at this moment and to the extent that they can be seen.
func Descendants(root string, pid int) (all []int) {
	descend(root, pid, func(pid int) bool {
		all = append(all, pid)
		return true
	})
	return all
}

// descend visits a process and its descendants, until a visit returns false. blind: there may be others.
func descend(root string, pid int, visit func(pid int) bool) (blind bool) {
	const most = 1000 // processes; a program that starts more of them is not looked through
	all := []int{pid}
	for i := 0; i < len(all); i++ {
		if i == most {
			return true
		}
		if !visit(all[i]) {
			return blind
		}
		dir := Dir("", all[i])
		lists := childLists(root, dir)
		if len(lists) == 0 && exists(root, dir) {
			blind = true // a kernel without CONFIG_PROC_CHILDREN, or more threads than are looked through
		}
		for _, text := range lists {
			for _, field := range strings.Fields(string(text)) {
				if child, err := strconv.Atoi(field); err == nil {
					all = append(all, child)
				}
			}
		}
	}
	return blind
}

// childLists are the texts of the lists of children that a process's threads have.
func childLists(root, dir string) (lists [][]byte) {
	threads, _ := foreign.Names(root, dir+"/task", foreign.Threads)
	for _, thread := range threads {
		if text, err := foreign.Read(root, dir+"/task/"+thread+"/children", foreign.Children); err == nil {
			lists = append(lists, text)
		}
	}
	return lists
}

func exists(root, path string) bool {
	f, err := foreign.Look(root, path)
	if err != nil {
		return false
	}
	f.Close()
	return true
}

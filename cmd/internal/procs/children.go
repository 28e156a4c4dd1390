package procs

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// StartsGo looks for a Go program among a process and its descendants as they are now. blind: one of them can't be looked
// into. The kernel's own lists of children are read, which is quick enough to be done again and again.
func (programs *Programs) StartsGo(root string, pid int) (found, blind bool) {
	const most = 1000 // processes; a program that starts more of them is not looked through
	all := []int{pid}
	for i := 0; i < len(all); i++ {
		if i == most {
			return false, true
		}
		dir := Dir(root, all[i])
		switch _, err := programs.read(dir + "/exe"); {
		case err == nil:
			return true, false
		case errors.Is(err, fs.ErrPermission):
			blind = true
		}
		lists, _ := filepath.Glob(dir + "/task/*/children")
		if len(lists) == 0 && exists(dir) {
			blind = true // a kernel without CONFIG_PROC_CHILDREN
		}
		for _, list := range lists {
			text, _ := os.ReadFile(list)
			for _, field := range strings.Fields(string(text)) {
				if child, err := strconv.Atoi(field); err == nil {
					all = append(all, child)
				}
			}
		}
	}
	return false, blind
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

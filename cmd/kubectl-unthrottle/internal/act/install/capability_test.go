//go:build linux

package install

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// TestCapabilities looks at another user's process as root with the DaemonSet's capabilities: its environment, its program file and
// its memory can be opened. Without any one of them something can't.
func TestCapabilities(t *testing.T) {
	setpriv, err := exec.LookPath("setpriv")
	if os.Getuid() != 0 || err != nil {
		t.Skipf("it takes root and setpriv of util-linux: user %d, %v", os.Getuid(), err)
	}
	other := exec.Command("sleep", "1000")
	other.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}, Pdeathsig: syscall.SIGKILL}
	if err := other.Start(); err != nil {
		t.Skipf("starting a process of another user: %v", err)
	}
	defer func() {
		other.Process.Kill()
		other.Wait()
	}()
	refused := func(capabilities []string) string {
		set := "-all"
		for _, c := range capabilities {
			set += ",+" + strings.ToLower(c)
		}
		script := fmt.Sprintf("for f in environ exe mem root/; do ( exec 3</proc/%d/$f ) 2>/dev/null || printf '%%s ' $f; done", other.Process.Pid)
		out, err := exec.Command(setpriv, "--bounding-set="+set, "--inh-caps=-all", "sh", "-c", script).CombinedOutput()
		if err != nil {
			t.Skipf("setpriv: %v %s", err, out)
		}
		return strings.TrimSpace(string(out))
	}
	all := capabilities(t)
	if got := refused(all); got != "" {
		t.Errorf("with %q these can't be opened: %s", all, got)
	}
	for i, c := range all {
		got := refused(slices.Delete(slices.Clone(all), i, i+1))
		if got == "" {
			t.Errorf("without %s nothing is missing", c)
		}
		t.Logf("without %s these can't be opened: %s", c, got)
	}
}

// capabilities are those that the DaemonSet adds.
func capabilities(t *testing.T) []string {
	t.Helper()
	objects, err := Objects(Options{Namespace: Namespace})
	if err != nil {
		t.Fatal(err)
	}
	set := objects[len(objects)-1]
	containers, _, err := unstructured.NestedSlice(set.Object, "spec", "template", "spec", "containers")
	if err != nil {
		t.Fatal(err)
	}
	names, _, err := unstructured.NestedStringSlice(containers[0].(map[string]any), "securityContext", "capabilities", "add")
	if err != nil || len(names) == 0 {
		t.Fatal(names, err)
	}
	return names
}

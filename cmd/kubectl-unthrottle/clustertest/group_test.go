package clustertest

import (
	"slices"
	"testing"

	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/clustertest/node/setup"
)

func TestFindGroups(t *testing.T) {
	const (
		together = "31 24 0:28 / /sys/fs/cgroup/cpu,cpuacct rw,nosuid shared:9 - cgroup cgroup rw,cpu,cpuacct\n"
		memory   = "32 24 0:29 /a /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
		named    = "33 24 0:30 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,xattr,name=systemd\n"
		unified  = "34 24 0:31 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"
	)
	for _, c := range []struct {
		name, memberships, mounts string
		want                      []setup.Cgroup
	}{
		{"nothing", "", "", nil},
		{"cgroup v2 only", "0::/a\n", unified, nil},
		{
			"two controllers in one hierarchy", "4:cpu,cpuacct:/x/y\n0::/\n", unified + together,
			[]setup.Cgroup{{Controllers: "cpu,cpuacct", Dir: "/sys/fs/cgroup/cpu,cpuacct/x/y"}},
		},
		{"a part is mounted", "3:memory:/a/b\n", memory, []setup.Cgroup{{Controllers: "memory", Dir: "/sys/fs/cgroup/memory/b"}}},
		{"another part is mounted", "3:memory:/b\n", memory, nil},
		{"a name", "1:name=systemd:/\n", memory + named, []setup.Cgroup{{Controllers: "name=systemd", Dir: "/sys/fs/cgroup/systemd"}}},
		{"not mounted", "3:memory:/\n", together, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := findGroups(c.memberships, c.mounts); !slices.Equal(got, c.want) {
				t.Errorf("groups are %+v, want %+v", got, c.want)
			}
		})
	}
	groups := []setup.Cgroup{{Controllers: "cpu,cpuacct", Dir: "/c"}}
	if g, ok := hierarchy(groups, "cpuacct"); !ok || g.Dir != "/c" {
		t.Errorf("the hierarchy of cpuacct is %+v", g)
	}
	if _, ok := hierarchy(groups, "cpus"); ok {
		t.Error("there is a hierarchy of cpus")
	}
}

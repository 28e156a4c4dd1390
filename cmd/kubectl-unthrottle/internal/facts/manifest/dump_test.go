package manifest

import (
	"fmt"
	"reflect"
	"sort"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/unthrottle/unthrottle/cmd/kubectl-unthrottle/internal/facts/workload"
)

// dump writes the facts of a set in few words, each with its place and the text there.
func dump(set *Set) string {
	d := &dumper{files: map[string]*File{}}
	for _, f := range set.Files {
		d.files[f.Name] = f
		if f.Skipped != "" {
			d.line("skipped %s: %s", f.Name, f.Skipped)
		}
	}
	for _, p := range set.Problems {
		d.line("%s %s: %s", p.Severity, p.At, p.Text)
		if p.Hint != "" {
			d.line("  hint: %s", p.Hint)
		}
	}
	for _, w := range set.Workloads {
		d.workload(w)
	}
	return d.b.String()
}

type dumper struct {
	b     strings.Builder
	files map[string]*File
}

func (d *dumper) line(format string, args ...any) {
	fmt.Fprintf(&d.b, format+"\n", args...)
}

// at shows a place with its text.
func (d *dumper) at(p workload.Position) string {
	if p == (workload.Position{}) {
		return ""
	}
	text := ""
	if f := d.files[p.File]; f != nil && p.End <= len(f.Data) {
		text = strings.Join(strings.Fields(string(f.Data[p.Offset:p.End])), " ")
		if len(text) > 24 {
			text = strings.ToValidUTF8(text[:10], "") + "…" + strings.ToValidUTF8(text[len(text)-10:], "")
		}
	}
	shared := ""
	if p.Shared {
		shared = " shared"
	}
	return fmt.Sprintf(" @%d:%d%s <%s>", p.Line, p.Column, shared, text)
}

func amount(a workload.Amount) string {
	switch a.State {
	case workload.Absent:
		return "-"
	case workload.Unknown:
		return fmt.Sprintf("unknown (%s)", a.Unknown)
	}
	return fmt.Sprintf("%s=%v", a.Text, a.Value)
}

func texts(m map[string]string) string {
	var list []string
	for k, v := range m {
		list = append(list, k+"="+v)
	}
	sort.Strings(list)
	return strings.Join(list, ",")
}

func names(m map[string]bool) string {
	var list []string
	for k := range m {
		list = append(list, k)
	}
	sort.Strings(list)
	return strings.Join(list, ",")
}

func (d *dumper) workload(w *workload.Workload) {
	d.line("%s (%s)%s", w, w.APIVersion, d.at(w.At))
	if w.At.Document > 0 || w.At.Path != "" {
		d.line("  document %d %s", w.At.Document, w.At.Path)
	}
	if len(w.Labels)+len(w.Annotations) > 0 {
		d.line("  labels %s annotations %s", texts(w.Labels), texts(w.Annotations))
	}
	for _, i := range w.Ignore {
		d.line("  ignore %s %q lines %d-%d%s", strings.Join(i.Rules, ","), i.Reason, i.From, i.To, d.at(i.At))
	}
	a := w.Around
	if v := a.VPA; v != nil {
		d.line("  vpa %s %s boost=%v off=%s limitsToo=%v limitsOff=%s%s", v.Name, v.Mode, v.Boost, names(v.Off), v.LimitsToo, names(v.LimitsOff), d.at(v.At))
	}
	if a.Boost != "" || a.Quota {
		d.line("  boost %s quota %v", a.Boost, a.Quota)
	}
	if a.LimitMax.State+a.Default.State+a.DefaultRequest.State > 0 {
		d.line("  limitrange max %s default %s request %s", amount(a.LimitMax), amount(a.Default), amount(a.DefaultRequest))
	}
	p := w.Pod
	d.line("  pod %s%s", p.At.Path, d.at(p.At))
	if len(p.Labels)+len(p.Annotations) > 0 {
		d.line("    labels %s annotations %s", texts(p.Labels), texts(p.Annotations))
	}
	if p.Limit.State+p.Request.State > 0 {
		d.line("    limit %s request %s%s", amount(p.Limit), amount(p.Request), d.at(p.LimitAt))
	}
	if p.Partial || p.Node != "" || p.RuntimeClass != "" {
		d.line("    partial %v node %s runtime %s", p.Partial, p.Node, p.RuntimeClass)
	}
	for _, c := range p.Containers {
		d.line("    %s %s %s%s", c.Role, c.Name, c.Image, d.at(c.At))
		if c.Limit.State+c.Request.State > 0 {
			d.line("      limit %s request %s%s", amount(c.Limit), amount(c.Request), d.at(c.LimitAt))
		}
		for _, a := range c.Advice {
			d.line("      advice %s (%s): limit %s request %s does=%v", a.By, a.How, amount(a.Limit), amount(a.Request), a.Does)
		}
		if c.Memory.State+c.MemoryRequest.State > 0 {
			d.line("      memory %s request %s", amount(c.Memory), amount(c.MemoryRequest))
		}
		if c.Resize != "" {
			d.line("      resize %s%s", c.Resize, d.at(c.ResizeAt))
		}
		if c.EnvUnknown != "" {
			d.line("      env unknown: %s", c.EnvUnknown)
		}
		if len(c.Command)+len(c.Args) > 0 {
			d.line("      command %q args %q", c.Command, c.Args)
		}
		if len(c.Referred) > 0 {
			d.line("      others refer to %q", c.Referred)
		}
		for _, s := range c.EnvFrom {
			d.line("      envFrom %s %s prefix %q optional %v known %v%s", s.Kind, s.Name, s.Prefix, s.Optional, s.Known, d.at(s.At))
		}
		for _, v := range c.Env {
			value := fmt.Sprintf("= %q", v.Value)
			if v.State == workload.Unknown {
				value = "unknown: " + v.Unknown
			}
			d.line("      %s %s %q %s%s value%s", v.Name, v.Form, v.Text, value, d.at(v.At), d.at(v.ValueAt))
			if v.Form == workload.ResourceRef {
				d.line("        container %q divisor %q%s", v.Container, v.Divisor, d.at(v.DivisorAt))
			}
		}
	}
}

// check holds what is true of every set: places are inside their file, their line and column are those of their offset, and
// they are the places of nodes that are found again.
func check(t testing.TB, set *Set) {
	t.Helper()
	files := map[string]*File{}
	for _, f := range set.Files {
		files[f.Name] = f
	}
	trees := map[int]map[[2]int]bool{}
	each := func(v any, inTree bool) {
		positions(reflect.ValueOf(v), func(p workload.Position) {
			f := files[p.File]
			if f == nil {
				t.Fatalf("%v: a place in no file", p)
			}
			if f.Data == nil || p.Line == 0 {
				return
			}
			if p.Offset < 0 || p.End < p.Offset || p.End > len(f.Data) {
				t.Fatalf("%v: bytes %d to %d of %d", p, p.Offset, p.End, len(f.Data))
			}
			before := string(f.Data[:p.Offset])
			before = strings.TrimPrefix(before, "\uFEFF")
			line := strings.Count(before, "\n") + 1
			column := utf8.RuneCountInString(before[strings.LastIndex(before, "\n")+1:]) + 1
			if line != p.Line || column != p.Column {
				t.Fatalf("%v: byte %d is in line %d, column %d", p, p.Offset, line, column)
			}
			if !inTree {
				return
			}
			root, err := f.Tree(p)
			if err != nil {
				t.Fatalf("%v: %v", p, err)
			}
			spans := trees[root.Start]
			if spans == nil {
				spans = map[[2]int]bool{}
				root.walk(func(n *Node) bool {
					spans[[2]int{n.Start, n.End}] = true
					return true
				})
				trees[root.Start] = spans
			}
			if !spans[[2]int{p.Offset, p.End}] {
				t.Fatalf("%v: no value stands at bytes %d to %d: %q", p, p.Offset, p.End, f.Data[p.Offset:p.End])
			}
		})
	}
	for _, w := range set.Workloads {
		clear(trees)
		ignore := w.Ignore
		w.Ignore = nil
		each(w, true)
		w.Ignore = ignore
		each(ignore, false)
		for _, i := range ignore {
			if i.From < 1 || i.To < i.From {
				t.Fatalf("%v: a comment for the lines %d to %d", i.At, i.From, i.To)
			}
		}
		for _, c := range w.Pod.Containers {
			same(t, files, c.LimitAt, c.Limit.State, c.Limit.Text)
			for _, v := range c.Env {
				if v.Form == workload.Literal {
					same(t, files, v.ValueAt, v.State, v.Text)
				}
				same(t, files, v.DivisorAt, v.State, v.Divisor)
			}
		}
	}
	each(set.Problems, false)
}

// same holds that the text at a place is the text that was read there.
func same(t testing.TB, files map[string]*File, p workload.Position, state workload.State, want string) {
	t.Helper()
	if p.Line == 0 || state != workload.Known {
		return
	}
	root, err := files[p.File].Tree(p)
	if err != nil {
		t.Fatal(err)
	}
	found := false
	root.walk(func(n *Node) bool {
		found = found || n.Start == p.Offset && n.End == p.End && n.Kind == Scalar && (strings.TrimSpace(n.Value) == strings.TrimSpace(want) || n.isNull())
		return true
	})
	if !found {
		t.Fatalf("%v: %q stands there, and %q was read", p, files[p.File].Data[p.Offset:p.End], want)
	}
}

// positions visits all places in a value.
func positions(v reflect.Value, visit func(workload.Position)) {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			positions(v.Elem(), visit)
		}
	case reflect.Slice:
		for i := range v.Len() {
			positions(v.Index(i), visit)
		}
	case reflect.Struct:
		if p, ok := v.Interface().(workload.Position); ok {
			if p != (workload.Position{}) {
				visit(p)
			}
			return
		}
		for i := range v.NumField() {
			positions(v.Field(i), visit)
		}
	}
}

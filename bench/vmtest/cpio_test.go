package vmtest

import (
	"bytes"
	"strings"
	"testing"
)

func TestCPIO(t *testing.T) {
	var b bytes.Buffer
	c := cpioWriter{w: &b}
	c.dir("dev")
	c.char("dev/null", 1, 3)
	c.program("init", []byte("hello"))
	c.symlink("dev/zero", "null") // the folder is there already
	c.file("etc/x", 0o644, nil)   // this one is not
	if err := c.close(); err != nil {
		t.Fatal(err)
	}

	// The numbers after the magic: ino mode nlink uid gid mtime filesize
	// devmajor devminor rdevmajor rdevminor namesize check. A header has 110
	// bytes, so "dev\0" (4) needs 2 bytes to a multiple of four.
	z := strings.Repeat("0", 8)
	want := strings.Join([]string{
		"070701", "00000001", "000041ED", "00000001", z, z, z, z, z, z, z, z, "00000004", z, "dev\x00\x00\x00",
		"070701", "00000002", "00002180", "00000001", z, z, z, z, z, z, "00000001", "00000003", "00000009", z, "dev/null\x00\x00",
		"070701", "00000003", "000081ED", "00000001", z, z, z, "00000005", z, z, z, z, "00000005", z, "init\x00\x00", "hello\x00\x00\x00",
		"070701", "00000004", "0000A1FF", "00000001", z, z, z, "00000004", z, z, z, z, "00000009", z, "dev/zero\x00\x00", "null",
		"070701", "00000005", "000041ED", "00000001", z, z, z, z, z, z, z, z, "00000004", z, "etc\x00\x00\x00",
		"070701", "00000006", "000081A4", "00000001", z, z, z, z, z, z, z, z, "00000006", z, "etc/x\x00",
		"070701", z, z, "00000001", z, z, z, z, z, z, z, z, "0000000B", z, "TRAILER!!!\x00\x00\x00\x00",
	}, "")
	if got := b.String(); got != want {
		t.Errorf("archive is\n%q\nwant\n%q", got, want)
	}
	if b.Len()%4 != 0 {
		t.Errorf("length %d is not a multiple of four", b.Len())
	}
}

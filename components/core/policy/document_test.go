package policy

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

func TestDocumentKeepsTheBytes(t *testing.T) {
	for _, text := range []string{"", "{}", strings.Repeat("x & y\n", 40<<10)} {
		d, err := NewDocument("pg", "r1", []byte(text), time.Unix(1, 0), 3)
		if err != nil {
			t.Fatal(err)
		}
		got, err := d.Text()
		if err != nil || string(got) != text {
			t.Errorf("%d bytes came back as %d, %v", len(text), len(got), err)
		}
	}
	d, err := NewDocument("pg", "r1", []byte("{}"), time.Unix(1, 0), 3)
	if err != nil {
		t.Fatal(err)
	}
	other, err := NewDocument("pg", "r1", []byte(`{"a":1}`), time.Unix(1, 0), 3)
	if err != nil {
		t.Fatal(err)
	}
	d.Gzip = other.Gzip
	if got, err := d.Text(); err == nil {
		t.Errorf("an edited record was read: %s", got)
	}
	bomb, err := NewDocument("pg", "r1", bytes.Repeat([]byte{'x'}, 64<<20), time.Unix(1, 0), 3)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := bomb.Text(); err == nil {
		t.Errorf("%d bytes were unpacked", len(got))
	}
}

package frame

import (
	"bytes"
	"errors"
	"slices"
	"testing"
)

func TestRestRoundTrip(t *testing.T) {
	for _, ending := range [][]SessionTag{nil, {{1}}, {{1}, {2, 0, 0, 0, 0, 0, 0, 3}}} {
		got, err := ReadRest(bytes.NewReader(AppendRest(nil, ending)))
		if err != nil || !slices.Equal(got, ending) {
			t.Errorf("rest %x: got %x, error %v", ending, got, err)
		}
	}
	if got, err := ReadRest(bytes.NewReader(nil)); err != nil || len(got) != 0 {
		t.Errorf("a question that names none: %x, error %v", got, err)
	}
}

func TestInvalidRest_OVL16(t *testing.T) {
	tag := make([]byte, len(SessionTag{}))
	for name, b := range map[string][]byte{
		"too many":               append([]byte{maxEnding + 1}, bytes.Repeat(tag, maxEnding+1)...),
		"the same session twice": slices.Concat([]byte{2}, tag, tag),
	} {
		if _, err := ReadRest(bytes.NewReader(b)); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: got %v, want %v", name, err, ErrInvalid)
		}
	}
	for _, b := range [][]byte{{1}, append([]byte{2}, tag...)} {
		if got, err := ReadRest(bytes.NewReader(b)); err == nil {
			t.Errorf("%x, which ends early, was read as %x", b, got)
		}
	}
}

func FuzzRest(f *testing.F) {
	f.Add(AppendRest(nil, []SessionTag{{1}, {2}}))
	f.Add([]byte{0xff})
	f.Fuzz(func(t *testing.T, b []byte) {
		ending, err := ReadRest(bytes.NewReader(b))
		if err != nil || len(b) == 0 {
			return
		}
		if got := AppendRest(nil, ending); !bytes.Equal(got, b[:len(got)]) {
			t.Errorf("rest %x reads as %x, which encodes to %x", b, ending, got)
		}
	})
}

package logring

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
)

// all returns the text that Copy gives without follow, and the dropped bytes.
func all(t *testing.T, r *Ring, lines int) (text string, dropped uint64) {
	t.Helper()
	err := r.Copy(t.Context(), lines, false, func(lost uint64, data []byte) error {
		dropped += lost
		text += string(data)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return text, dropped
}

func TestTheLastLinesAreKept(t *testing.T) {
	var r Ring
	if text, _ := all(t, &r, 0); text != "" {
		t.Errorf("an empty ring has %q", text)
	}
	_, _ = r.Write([]byte("one\ntwo\nthr"))
	for lines, want := range map[int]string{0: "one\ntwo\nthr", 1: "thr", 2: "two\nthr", 3: "one\ntwo\nthr", 9: "one\ntwo\nthr"} {
		if text, dropped := all(t, &r, lines); text != want || dropped != 0 {
			t.Errorf("%d lines: %q, %d bytes dropped", lines, text, dropped)
		}
	}
	_, _ = r.Write([]byte("ee\n"))
	if text, _ := all(t, &r, 1); text != "three\n" {
		t.Errorf("the last whole line: %q", text)
	}
}

func TestAFullRingKeepsItsSize(t *testing.T) {
	var r Ring
	var want bytes.Buffer
	for n := range 100_000 {
		line := fmt.Sprintf("line %d\n", n)
		want.WriteString(line)
		if n, err := r.Write([]byte(line)); n != len(line) || err != nil {
			t.Fatal(n, err)
		}
	}
	text, dropped := all(t, &r, 0)
	if !bytes.HasSuffix(want.Bytes(), []byte(text)) || len(text) > Size || len(text) < Size-20 || !strings.HasPrefix(text, "line ") || dropped != 0 {
		t.Errorf("%d bytes, %d dropped, begin %.20q", len(text), dropped, text)
	}
	huge := bytes.Repeat([]byte("x"), 3*Size+7)
	if n, err := r.Write(huge); n != len(huge) || err != nil {
		t.Error(n, err)
	}
	if text, _ := all(t, &r, 0); text != string(huge[:Size]) {
		t.Errorf("after one write above the size: %d bytes", len(text))
	}
}

// A reader that is slower than the writer gets the number of lost bytes, and then the newest ones.
func TestASlowReaderLosesBytesWithTheirNumber(t *testing.T) {
	var r Ring
	_, _ = r.Write([]byte("begin\n"))
	ctx, cancel := context.WithCancelCause(t.Context())
	done := errors.New("done")
	var got, lost uint64
	written := uint64(len("begin\n"))
	err := r.Copy(ctx, 0, true, func(dropped uint64, data []byte) error {
		if got == 0 {
			for range 40 {
				n, _ := r.Write(bytes.Repeat([]byte("y"), Piece))
				written += uint64(n)
			}
		}
		lost += dropped
		if got += uint64(len(data)); got+lost == written {
			cancel(done)
		}
		return nil
	})
	if !errors.Is(err, done) || lost != written-got || lost == 0 || got != Size+6 {
		t.Errorf("%v: %d written, %d read, %d dropped", err, written, got, lost)
	}
}

func TestAFollowerGetsEachLaterLine(t *testing.T) {
	var r Ring
	_, _ = r.Write([]byte("old\nlast\n"))
	wrong := errors.New("enough")
	begun := make(chan struct{})
	go func() {
		<-begun
		for n := range 1000 {
			_, _ = fmt.Fprintln(&r, n)
		}
	}()
	var text strings.Builder
	err := r.Copy(t.Context(), 1, true, func(_ uint64, data []byte) error {
		if text.Len() == 0 {
			close(begun)
		}
		text.Write(data)
		if strings.HasSuffix(text.String(), "\n999\n") {
			return wrong
		}
		return nil
	})
	if !errors.Is(err, wrong) || !strings.HasPrefix(text.String(), "last\n0\n1\n") {
		t.Errorf("%v, %.40q", err, text.String())
	}
}

package frame

import (
	"bytes"
	"errors"
	"testing"
	"time"
)

func TestBenchFramesRoundTrip(t *testing.T) {
	for _, r := range []BenchRequest{
		{BenchSend, time.Millisecond, 1}, {BenchReceive, MaxBenchTime, MaxBenchBytes},
	} {
		if got, err := ReadBenchRequest(bytes.NewReader(r.Append(nil))); err != nil || got != r {
			t.Errorf("request %v: got %v, error %v", r, got, err)
		}
	}
	for _, c := range []BenchCount{{}, {MaxBenchBytes, MaxBenchTime}, {7, 3 * time.Microsecond}} {
		if got, err := ReadBenchCount(bytes.NewReader(c.Append(nil))); err != nil || got != c {
			t.Errorf("count %v: got %v, error %v", c, got, err)
		}
	}
}

func TestInvalidBenchFrames_OVL16(t *testing.T) {
	for name, r := range map[string]BenchRequest{
		"no direction":      {0, time.Second, 1},
		"unknown direction": {3, time.Second, 1},
		"no time":           {BenchSend, 0, 1},
		"endless":           {BenchSend, MaxBenchTime + time.Millisecond, 1},
		"no bytes":          {BenchReceive, time.Second, 0},
		"too many bytes":    {BenchReceive, time.Second, MaxBenchBytes + 1},
	} {
		if _, err := ReadBenchRequest(bytes.NewReader(r.Append(nil))); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: got %v, want %v", name, err, ErrInvalid)
		}
	}
	for name, c := range map[string]BenchCount{
		"too many bytes": {MaxBenchBytes + 1, time.Second},
		"too long":       {1, 3 * MaxBenchTime},
	} {
		if _, err := ReadBenchCount(bytes.NewReader(c.Append(nil))); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: got %v, want %v", name, err, ErrInvalid)
		}
	}
	if _, err := ReadBenchRequest(bytes.NewReader(make([]byte, benchSize-1))); err == nil {
		t.Error("a request that ends early was read")
	}
}

func FuzzBenchRequest(f *testing.F) {
	f.Add(BenchRequest{BenchSend, time.Second, 1}.Append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := ReadBenchRequest(bytes.NewReader(b))
		if err == nil && !bytes.Equal(r.Append(nil), b[:benchSize]) {
			t.Errorf("request %x reads as %+v", b, r)
		}
	})
}

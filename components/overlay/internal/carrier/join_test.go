package carrier

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"testing"

	"cadre.dev/raced/synctest"
)

// joined gives a join without TLS and its far side. Call wait before the test ends.
func joined() (j *join, far net.Conn, wait func()) {
	near, far := net.Pipe()
	var wg sync.WaitGroup
	m := newMeter(near)
	j = newJoin(m, m, func(f func()) bool { wg.Go(f); return true }, func() {})
	return j, far, wg.Wait
}

// yamuxFrame is a data frame as yamux writes it, in two calls.
func yamuxFrame(t *testing.T, j *join, body []byte) []byte {
	t.Helper()
	head := make([]byte, yamuxHeader)
	binary.BigEndian.PutUint32(head[8:], uint32(len(body)))
	for _, b := range [][]byte{head, body} {
		if n, err := j.Write(b); n != len(b) || err != nil {
			t.Fatalf("wrote %d of %d bytes: %v", n, len(b), err)
		}
	}
	return append(head, body...)
}

// Small and large frames, taken ahead or not, arrive in order.
func TestJoinKeepsOrder(t *testing.T) {
	j, far, wait := joined()
	got := make(chan []byte)
	go func() {
		b, _ := io.ReadAll(far)
		got <- b
	}()
	var want []byte
	for i := range 200 {
		size := []int{1, oneRecord, longChunk, 100, shortChunk}[i%5]
		want = append(want, yamuxFrame(t, j, bytes.Repeat([]byte{byte(i)}, size))...)
		if i%70 == 0 {
			j.slow.Store(slowMemory) // as after a slow write
		}
	}
	wait()
	j.Close()
	if b := <-got; !bytes.Equal(b, want) {
		t.Errorf("%d bytes arrived, want %d, or not the same", len(b), len(want))
	}
}

// A write that yamux considers done may be stuck: only join notices that.
func TestJoinEndsAStalledConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j, far, wait := joined()
		defer far.Close()
		yamuxFrame(t, j, make([]byte, longChunk))
		wait() // for writeTimeout
		if _, err := far.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
			t.Errorf("the connection goes on: %v", err)
		}
		if _, err := j.Write(make([]byte, yamuxHeader)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("the next write: %v, want %v", err, os.ErrDeadlineExceeded)
		}
	})
}

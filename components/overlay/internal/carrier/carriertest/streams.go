package carriertest

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"time"

	"cadre.dev/overlay/internal/carrier"
)

func roundTrip(t *testing.T, near, far side) {
	a, b := near.ends(t, far)
	for _, st := range []carrier.Stream{a, b} {
		if st.LocalAddr() == nil || st.RemoteAddr() == nil {
			t.Error("a stream without addresses")
		}
	}
	for _, dir := range [][2]carrier.Stream{{a, b}, {b, a}} {
		if _, err := dir[0].Write([]byte("hello")); err != nil {
			t.Fatal(err)
		}
		got := make([]byte, 5)
		if _, err := io.ReadFull(dir[1], got); err != nil || string(got) != "hello" {
			t.Fatalf("got %q, error %v", got, err)
		}
	}
	finish(t, a, b)
}

func halfClose(t *testing.T, near, far side) {
	a, b := near.ends(t, far)
	if err := a.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	wantEOF(t, b)
	if _, err := a.Write([]byte("x")); err == nil {
		t.Error("a write after the own end went through")
	}
	if _, err := b.Write([]byte("still here")); err != nil {
		t.Fatal(err)
	}
	if err := b.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(a); err != nil || string(got) != "still here" {
		t.Errorf("got %q, error %v", got, err)
	}
}

func bulk(t *testing.T, near, far side) {
	const size = 16 << 20
	a, b := near.ends(t, far)
	sums := make(chan [2][32]byte, 2)
	var wg sync.WaitGroup
	for i, dir := range [][2]carrier.Stream{{a, b}, {b, a}} {
		sent, got := sha256.New(), sha256.New()
		var pair sync.WaitGroup
		pair.Go(func() {
			src := io.LimitReader(rand.NewChaCha8([32]byte{byte(i)}), size)
			if _, err := io.CopyBuffer(struct{ io.Writer }{dir[0]}, io.TeeReader(src, sent), make([]byte, 100_000)); err != nil {
				t.Errorf("write: %v", err)
			}
			if err := dir[0].CloseWrite(); err != nil {
				t.Errorf("half-close: %v", err)
			}
		})
		pair.Go(func() {
			if n, err := io.Copy(got, struct{ io.Reader }{dir[1]}); err != nil || n != size {
				t.Errorf("read %d bytes, error %v", n, err)
			}
		})
		wg.Go(func() {
			pair.Wait()
			sums <- [2][32]byte{[32]byte(sent.Sum(nil)), [32]byte(got.Sum(nil))}
		})
	}
	wg.Wait()
	for range 2 {
		if s := <-sums; s[0] != s[1] { //nolint:gosec // an array of two
			t.Error("the received data differs from the sent data")
		}
	}
}

func resetBlocked(t *testing.T, near, far side) {
	for _, who := range []string{"opener", "acceptor"} {
		a, b := near.ends(t, far)   // blocked in writing, both ways
		a2, b2 := near.ends(t, far) // blocked in reading, both ways
		ends := make(chan error, 4)
		junk := make([]byte, 1<<20)
		for _, st := range []carrier.Stream{a, b} {
			go func() {
				for {
					if _, err := st.Write(junk); err != nil {
						ends <- err
						return
					}
				}
			}()
		}
		for _, st := range []carrier.Stream{a2, b2} {
			go func() {
				_, err := st.Read(make([]byte, 1))
				ends <- err
			}()
		}
		if who == "opener" {
			a.Reset()
			a2.Reset()
		} else {
			b.Reset()
			b2.Reset()
		}
		for range cap(ends) {
			wantIs(t, "blocked call, reset by the "+who, <-ends, carrier.ErrReset)
		}
		for _, st := range []carrier.Stream{a, b, a2, b2} {
			wantReset(t, st)
			st.Reset()
			st.Reset()
			wantReset(t, st)
		}
	}
}

func resetOvertakes(t *testing.T, near, far side) {
	a, b := near.ends(t, far)
	// More than is under way, less than anybody blocks for.
	if _, err := a.Write(make([]byte, 100_000)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(b, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	a.Reset()
	_, err := a.Read(make([]byte, 1))
	wantIs(t, "read on the side that reset", err, carrier.ErrReset)
	wantReset(t, a)
	wantReset(t, b)
	b.Reset()
}

func resetUnused(t *testing.T, near, far side) {
	near.open(t).Reset()
	st, err := far.AcceptStream()
	if err != nil {
		t.Fatal(err)
	}
	wantReset(t, st)
	st.Reset()
}

func resetAfterEnd(t *testing.T, near, far side) {
	a, b := near.ends(t, far)
	want := bytes.Repeat([]byte("x"), 200_000)
	if err := b.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	wantEOF(t, a)
	if _, err := a.Write(want); err != nil {
		t.Fatal(err)
	}
	if err := a.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	a.Reset()
	if got, err := io.ReadAll(b); err != nil || !bytes.Equal(got, want) {
		t.Errorf("got %d bytes of %d, error %v", len(got), len(want), err)
	}
	b.Reset()
}

func resetAfterCloseWrite(t *testing.T, near, far side) {
	a, b := near.ends(t, far)
	if err := a.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	wantEOF(t, b)
	a.Reset()
	junk := make([]byte, 1<<20)
	for {
		if _, err := b.Write(junk); err != nil {
			wantIs(t, "write", err, carrier.ErrReset)
			break
		}
	}
	b.Reset()
}

// refusal makes a receiver refuse a stream while the opener is still writing.
func refusal(t *testing.T, near, far side) {
	a, b := near.ends(t, far)
	writing := make(chan error, 1)
	go func() {
		junk := make([]byte, 10_000)
		for {
			if _, err := a.Write(junk); err != nil {
				writing <- err
				return
			}
		}
	}()
	refused := make(chan error, 1)
	go func() {
		defer b.Reset()
		_, err := b.Write([]byte("no"))
		refused <- errors.Join(err, b.CloseWrite())
		_, _ = io.Copy(io.Discard, b)
	}()
	got := make([]byte, 2)
	if _, err := io.ReadFull(a, got); err != nil || string(got) != "no" {
		t.Fatalf("got %q, error %v", got, err)
	}
	// The refusal is complete before the opener resets, which would cut it short.
	if err := <-refused; err != nil {
		t.Errorf("refuse: %v", err)
	}
	a.Reset()
	wantIs(t, "write", <-writing, carrier.ErrReset)
}

func deadlines(t *testing.T, near, far side) {
	a, b := near.ends(t, far)
	_ = a.SetReadDeadline(time.Now().Add(time.Millisecond))
	wantTimeout(t, "read", func() error { _, err := a.Read(make([]byte, 1)); return err })
	_ = a.SetReadDeadline(time.Now().Add(patience))
	if _, err := b.Write([]byte("late")); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(a, make([]byte, 4)); err != nil {
		t.Errorf("read after the deadline was moved: %v", err)
	}
	// A deadline also ends a call that waits already.
	blocked := make(chan error, 1)
	_ = a.SetDeadline(time.Time{})
	go func() {
		_, err := a.Read(make([]byte, 1))
		blocked <- err
	}()
	eventually(t, "deadline to end a blocked read", func() bool {
		_ = a.SetReadDeadline(time.Now())
		return len(blocked) == 1
	})
	wantTimeout(t, "blocked read", func() error { return <-blocked })
	_ = b.SetWriteDeadline(time.Now().Add(50 * time.Millisecond))
	wantTimeout(t, "write", func() error {
		for {
			if _, err := b.Write(make([]byte, 1<<20)); err != nil {
				return err
			}
		}
	})
	a.Reset()
	b.Reset()
}

func wantTimeout(t *testing.T, what string, call func() error) {
	t.Helper()
	err := call()
	var timeout net.Error
	if !errors.As(err, &timeout) || !timeout.Timeout() {
		t.Errorf("%s past its deadline: %v", what, err)
	}
}

// stalled lets readers stall until their writers do, and then uses others.
func stalled(t *testing.T, near, far side) {
	const readers = 6
	var full sync.WaitGroup
	var all []carrier.Stream
	for range readers {
		a, b := near.ends(t, far)
		all = append(all, a, b)
		full.Go(func() {
			_ = a.SetWriteDeadline(time.Now().Add(300 * time.Millisecond))
			for {
				if _, err := a.Write(make([]byte, 256<<10)); err != nil {
					return
				}
			}
		})
	}
	full.Wait()
	roundTrip(t, near, far)
	roundTrip(t, side{Session: near.Session, kind: "control"}, far)
	a, b := near.ends(t, far)
	go func() {
		_, _ = a.Write(make([]byte, 4<<20))
		_ = a.CloseWrite()
	}()
	if n, err := io.Copy(io.Discard, b); err != nil || n != 4<<20 {
		t.Errorf("%d bytes past stalled readers, error %v", n, err)
	}
	if err := b.CloseWrite(); err != nil {
		t.Error(err)
	}
	wantEOF(t, a)
	for _, st := range all {
		st.Reset()
	}
}

package callers

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"cadre.dev/raced/synctest"
)

const (
	here  = "192.0.2.1"
	there = "198.51.100.7"
)

// A silent connection is closed in time, wherever it falls silent, unless it is an operator's.
func TestINP04_SilentUnauthenticatedConnectionsAreClosed(t *testing.T) {
	begun := func(w *world, sent ...byte) net.Conn {
		return say(w.shake(here), append([]byte(http2.ClientPreface), sent...)...)
	}
	settings := []byte{0, 0, 0, byte(http2.FrameSettings), 0, 0, 0, 0, 0}
	for name, c := range map[string]struct {
		connect func(w *world) net.Conn
		stays   time.Duration
	}{
		"before the handshake": {func(w *world) net.Conn { return w.connect(here) }, byClass[newcomer].time},
		"in the handshake":     {func(w *world) net.Conn { return say(w.connect(here), 22, 3, 1, 2, 0) }, byClass[newcomer].time},
		"before the preface":   {func(w *world) net.Conn { return w.shake(here) }, byClass[newcomer].time},
		"in the preface":       {func(w *world) net.Conn { return say(w.shake(here), []byte("PRI *")...) }, byClass[newcomer].time},
		"after it":             {func(w *world) net.Conn { return begun(w, settings...) }, byClass[unauthenticated].time},
		"in a frame": {func(w *world) net.Conn {
			return begun(w, append(settings, 0, 64, 0, byte(http2.FrameHeaders), 0, 0, 0, 0, 1, 7)...)
		}, byClass[unauthenticated].time},
		"in the headers' numbers": {func(w *world) net.Conn {
			return begun(w, append(settings, 0, 0, 1, byte(http2.FrameHeaders), 0, 0, 0, 0, 1, 0)...)
		}, byClass[unauthenticated].time},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, nil)
				if stayed := ended(c.connect(w)); stayed != c.stays {
					t.Errorf("it stayed for %v, want %v", stayed, c.stays)
				}
				synctest.Wait()
				if n, m := w.count(newcomer), w.count(unauthenticated); n+m != 0 {
					t.Errorf("%d newcomers and %d unauthenticated connections are left", n, m)
				}
			})
		})
	}
}

// The watch of an operator lasts for hours during crowds of unauthenticated callers, also from the
// operator's own address, and its connection serves further calls.
func TestINP04_OperatorsStayDuringACrowd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(c *Callers) { c.classes[newcomer].places, c.classes[unauthenticated].places = 16, 8 })
		end := make(chan struct{})
		w.set(func() { w.do = func(ctx context.Context) error { <-end; return status.Error(codes.OutOfRange, "end") } })
		cc := w.client(here)
		watched := w.watch(cc, "ops")
		w.set(func() { w.do = nil })
		for range 3 {
			for n := range 64 {
				w.connect([]string{here, there}[n%2])
				w.shake([]string{here, there}[n%2])
			}
			time.Sleep(time.Hour)
		}
		if err := w.call(cc, doMethod, "ops", 10); err != nil {
			t.Errorf("a call during the watch: %v", err)
		}
		select {
		case err := <-watched:
			t.Fatalf("the watch ended: %v", err)
		default:
		}
		close(end)
		if err := <-watched; status.Code(err) != codes.OutOfRange {
			t.Errorf("the watch ended with %v", err)
		}
	})
}

// When all unauthenticated places are taken, a new connection still gets one. The source with the
// most connections loses its oldest one, so a crowd does not affect other sources.
func TestINP04_ACrowdTakesFromItself(t *testing.T) {
	for _, of := range []class{newcomer, unauthenticated} {
		t.Run(fmt.Sprint(of), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, func(c *Callers) { c.classes[of].places = 4 })
				enter := w.connect
				if of == unauthenticated {
					enter = func(address string) net.Conn { return w.shake(address) }
				}
				var mu sync.Mutex
				var gone []string // guarded by mu
				come := func(name, address string) {
					conn := enter(address)
					go func() {
						if ended(conn) < byClass[newcomer].time {
							mu.Lock()
							defer mu.Unlock()
							gone = append(gone, name)
						}
					}()
					synctest.Wait()
				}
				come("other", there)
				for n := range 10 {
					come(fmt.Sprint("crowd ", n), here)
				}
				come("another", there)
				if w.count(of) != 4 {
					t.Errorf("%d have a place, want 4", w.count(of))
				}
				mu.Lock()
				defer mu.Unlock()
				want := []string{"crowd 0", "crowd 1", "crowd 2", "crowd 3", "crowd 4", "crowd 5", "crowd 6", "crowd 7"}
				if !slices.Equal(gone, want) {
					t.Errorf("%q had to go, want %q", gone, want)
				}
			})
		})
	}
}

// An unauthenticated caller cannot send much of any protocol; an operator's first call can.
func TestINP01_UnauthenticatedCallersSendLittle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		if err := w.call(w.client(here), openMethod, "", 400<<10); status.Code(err) != codes.Unavailable {
			t.Errorf("a large open call: %v", err)
		}
		if err := w.call(w.client(here), doMethod, "ops", 400<<10); err != nil {
			t.Errorf("an operator's: %v", err)
		}
		for name, conn := range map[string]net.Conn{"newcomer": w.connect(here), "unauthenticated": w.shake(here)} {
			go func() { _, _ = io.Copy(io.Discard, conn) }()
			most := byClass[newcomer].bytes
			if _, is := conn.(*tls.Conn); is {
				most = byClass[unauthenticated].bytes
				if _, err := io.WriteString(conn, http2.ClientPreface); err != nil {
					t.Fatal(err)
				}
			}
			sent, err := int64(0), error(nil)
			// Frames of an unknown type, in a TLS record of an unknown type.
			for frame := append([]byte{0, 4, 0, 0xbb, 0, 0, 0, 0, 0}, make([]byte, 1024)...); err == nil && sent < 1<<20; sent += int64(len(frame)) {
				_, err = conn.Write(frame)
			}
			if err == nil || sent > most+4<<10 {
				t.Errorf("a %s sent %d bytes: %v", name, sent, err)
			}
		}
	})
}

// A caller without a good token gets the reason, and its connection is soon closed.
func TestINP04_RefusedCallsEndTheConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		cc := w.client(here)
		for n := range refusals {
			token, want := fmt.Sprint("invented ", n), codes.PermissionDenied
			if n == 0 {
				token, want = "", codes.Unauthenticated
			}
			if err := w.call(cc, doMethod, token, 0); status.Code(err) != want {
				t.Errorf("call %d: %v, want %v", n, err, want)
			}
		}
		if w.count(unauthenticated) != 1 {
			t.Errorf("%d unauthenticated connections, want one", w.count(unauthenticated))
		}
		if err := w.call(cc, doMethod, strings.Repeat("x", maxToken+1), 0); err == nil {
			t.Error("an endless token is good")
		}
		synctest.Wait()
		if w.count(unauthenticated) != 0 {
			t.Error("it calls on")
		}
	})
}

// Unauthenticated callers may make a few open calls per connection.
func TestINP04_OpenCallsAreFew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		cc := w.client(here)
		for n, want := range []codes.Code{codes.OK, codes.OK, codes.ResourceExhausted} {
			if err := w.call(cc, openMethod, "invented", 32); status.Code(err) != want {
				t.Errorf("call %d: %v", n, err)
			}
		}
		if err := w.call(cc, doMethod, "ops", 0); err != nil {
			t.Fatal(err)
		}
		for range 10 {
			if err := w.call(cc, openMethod, "", 32); err != nil {
				t.Errorf("an operator's: %v", err)
			}
		}
		time.Sleep(unused) // its token has no recent use
		for n, want := range []codes.Code{codes.OK, codes.OK, codes.ResourceExhausted} {
			if err := w.call(cc, openMethod, "", 32); status.Code(err) != want {
				t.Errorf("call %d after a while: %v", n, err)
			}
		}
	})
}

// Invented tokens keep the token checks busy. A known token does not wait for them, and a new token
// from another source waits only for its turn.
func TestINP06_InventedTokensDelayNoOperator(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		known := w.client(here)
		if err := w.call(known, doMethod, "ops", 0); err != nil {
			t.Fatal(err)
		}
		w.set(func() {
			w.check = func(ctx context.Context, token string) error {
				select {
				case <-time.After(100 * time.Millisecond):
				case <-ctx.Done():
					return errAway
				}
				if token == "ops" || token == "more" {
					return nil
				}
				return errNone
			}
		})
		for n := range 100 {
			cc := w.client(there)
			go func() { _ = w.call(cc, doMethod, fmt.Sprint("invented ", n), 0) }()
		}
		synctest.Wait()
		began := time.Now()
		for name, cc := range map[string]*grpc.ClientConn{"its connection": known, "a new one": w.client(here)} {
			if err := w.call(cc, doMethod, "ops", 0); err != nil || time.Since(began) != 0 {
				t.Errorf("a known token over %s: %v after %v", name, err, time.Since(began))
			}
		}
		if err := w.call(w.client(here), doMethod, "more", 0); err != nil || time.Since(began) > 200*time.Millisecond {
			t.Errorf("a new token: %v after %v", err, time.Since(began))
		}
	})
}

// An invented token is refused for a short time without a check, and then checked again.
func TestINP06_RefusedTokensAreRemembered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		for range 20 {
			if err := w.call(w.client(here), doMethod, "new", 0); status.Code(err) != codes.PermissionDenied {
				t.Fatal(err)
			}
		}
		if asked := w.tokensAsked(); len(asked) != 1 {
			t.Errorf("asked about %q", asked)
		}
		w.set(func() { w.good["new"] = true })
		time.Sleep(refuseFor)
		if err := w.call(w.client(here), doMethod, "new", 0); err != nil {
			t.Errorf("after it was made: %v", err)
		}
	})
}

// The connections of a revoked token give up their places, and cannot get them again.
func TestINP04_RevokedTokensAreNoOperators(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		cc := w.client(here)
		if err := w.call(cc, doMethod, "ops", 0); err != nil || w.count(operator) != 1 {
			t.Fatal(err, w.count(operator))
		}
		w.set(func() {
			delete(w.good, "ops")
			w.do = func(context.Context) error { return status.Error(codes.PermissionDenied, "not any more") }
		})
		for range 2 { // the first call casts doubt on the token, the second has it checked
			if err := w.call(cc, doMethod, "ops", 0); status.Code(err) != codes.PermissionDenied {
				t.Error(err)
			}
			synctest.Wait()
		}
		if w.count(operator) != 0 || w.count(unauthenticated) != 1 {
			t.Errorf("%d operators, %d unauthenticated", w.count(operator), w.count(unauthenticated))
		}
		if err := w.call(cc, doMethod, "ops", 0); status.Code(err) != codes.PermissionDenied || w.count(operator) != 0 {
			t.Errorf("once more: %v, %d operators", err, w.count(operator))
		}
		time.Sleep(byClass[unauthenticated].time)
		synctest.Wait()
		if w.count(unauthenticated) != 0 {
			t.Error("it stays as an unauthenticated connection")
		}
	})
}

// While token checks fail, a known token still counts, and an unknown one gets a retryable error.
func TestKnownTokensOutliveTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		cc := w.client(here)
		if err := w.call(cc, doMethod, "ops", 0); err != nil {
			t.Fatal(err)
		}
		w.set(func() { w.check = func(context.Context, string) error { return errAway } })
		for range 5 {
			time.Sleep(askAgain)
			if err := w.call(cc, doMethod, "ops", 0); err != nil {
				t.Error(err)
			}
		}
		synctest.Wait()
		if asked := w.tokensAsked(); len(asked) < 4 {
			t.Errorf("asked about %q only", asked)
		}
		if err := w.call(w.client(here), doMethod, "more", 0); status.Code(err) != codes.Unavailable {
			t.Errorf("an unknown token: %v", err)
		}
	})
}

// One token does not take the places of all operators. Beyond its share the token loses its unused
// connections. A call is refused when all are in use.
func TestINP04_OneTokenTakesItsShareOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		end := make(chan struct{})
		defer close(end)
		w.set(func() { w.do = func(context.Context) error { <-end; return nil } })
		for range eachToken - 1 {
			w.watch(w.client(here), "ops")
		}
		w.set(func() { w.do = nil })
		// A call whose message is still arriving.
		late, err := w.client(here).NewStream(metadata.AppendToOutgoingContext(t.Context(), tokenName, "ops"), &grpc.StreamDesc{ServerStreams: true}, doMethod)
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		refused := func(when string) {
			t.Helper()
			if err := w.call(w.client(there), doMethod, "ops", 0); status.Code(err) != codes.ResourceExhausted {
				t.Errorf("%s: %v", when, err)
			}
		}
		refused("while all are in use")
		if err := w.call(w.client(there), doMethod, "more", 0); err != nil {
			t.Errorf("another token: %v", err)
		}
		time.Sleep(unused)
		if err := late.RecvMsg(new(wrapperspb.UInt64Value)); status.Code(err) != codes.DeadlineExceeded {
			t.Errorf("the late call ended with %v", err)
		}
		w.set(func() { w.do = func(context.Context) error { <-end; return nil } })
		w.watch(w.client(there), "ops") // in its place
		w.set(func() { w.do = nil })
		if got := w.count(operator); got != eachToken+1 {
			t.Errorf("%d operators' connections, want %d", got, eachToken+1)
		}
		time.Sleep(10 * time.Minute)
		refused("while all have been in use for long")
	})
}

// The running call of a revoked token ends when its handler gets a refusal, and is not cut before.
func TestARevokedTokensCallEndsWithItsHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		end := make(chan struct{})
		w.set(func() {
			w.do = func(context.Context) error { <-end; return status.Error(codes.PermissionDenied, "revoked") }
		})
		cc := w.client(here)
		watched := w.watch(cc, "ops")
		w.set(func() { delete(w.good, "ops") })
		time.Sleep(askAgain)
		// The token still counts as known, and this call has it checked again.
		w.set(func() { w.do = nil })
		if err := w.call(cc, doMethod, "ops", 0); err != nil {
			t.Error(err)
		}
		time.Sleep(byClass[unauthenticated].time)
		if w.count(operator) != 1 {
			t.Error("the watch's connection has lost its place")
		}
		close(end)
		if err := <-watched; status.Code(err) != codes.PermissionDenied {
			t.Errorf("the watch ended with %v", err)
		}
	})
}

package parent

import (
	"errors"
	"os"
	"testing"
	"time"
)

func TestASocketStaysOpenForTheNextWorker(t *testing.T) {
	s := newSockets(nil)
	defer s.clear()
	n, now := name{"tcp", "127.0.0.1:0"}, time.Unix(1e9, 0)
	s.begin(now)
	first := mustGive(t, s, n)
	s.begin(now)
	if again := mustGive(t, s, n); again != first {
		t.Error("the next worker got another socket")
	}
	if next := s.prune(now.Add(time.Hour)); !next.IsZero() || len(s.byName) != 1 {
		t.Errorf("a socket in use: next %v, %d kept", next, len(s.byName))
	}
}

func TestAnUnclaimedSocketIsClosed(t *testing.T) {
	s := newSockets(nil)
	n, now := name{"tcp", "127.0.0.1:0"}, time.Unix(1e9, 0)
	mustGive(t, s, n)
	s.begin(now)
	if next := s.prune(now); !next.Equal(now.Add(claimWithin)) {
		t.Errorf("looks again at %v", next)
	}
	if next := s.prune(now.Add(claimWithin)); !next.IsZero() || len(s.byName) != 0 {
		t.Errorf("next %v, %d kept", next, len(s.byName))
	}
}

// A worker that fails closes everything before it ends; that counts for nothing.
func TestAReleaseCountsOnceTheWorkerOutlivesIt(t *testing.T) {
	s := newSockets(nil)
	defer s.clear()
	n, now := name{"tcp", "127.0.0.1:0"}, time.Unix(1e9, 0)
	first := mustGive(t, s, n)
	s.release(n, now)
	s.prune(now.Add(releaseAfter / 2))
	s.begin(now.Add(releaseAfter / 2))
	s.prune(now.Add(releaseAfter))
	if again := mustGive(t, s, n); again != first {
		t.Error("the socket was closed although its worker ended")
	}
	s.release(n, now)
	s.prune(now.Add(releaseAfter))
	if len(s.byName) != 0 {
		t.Error("a released socket is kept")
	}
	s.release(n, now) // releasing an unknown socket is allowed
}

func TestTOK22_SocketsAreBounded(t *testing.T) {
	s := newSockets(nil)
	s.limit = 1
	defer s.clear()
	mustGive(t, s, name{"tcp", "127.0.0.1:0"})
	if _, _, err := s.give(name{"tcp4", "127.0.0.1:0"}); !errors.Is(err, errFull) {
		t.Errorf("got %v", err)
	}
	if _, _, err := s.give(name{"tcp", "0.0.0.0:0"}); err == nil {
		t.Error("an address off loopback is given")
	}
}

// A socket that is in use is never given to a second asker.
func TestASocketInUseIsNotShared(t *testing.T) {
	n := name{"udp4", "127.0.0.1:0"}
	s := newSockets([]name{n})
	defer s.clear()
	first := mustGive(t, s, n)
	second, once, err := s.give(n)
	if err != nil || !once || second == first {
		t.Errorf("once %v, %v", once, err)
	}
	_ = second.Close()
}

func mustGive(t *testing.T, s *sockets, n name) *os.File {
	t.Helper()
	file, once, err := s.give(n)
	if err != nil || once {
		t.Fatalf("give %s: once %v, %v", n, once, err)
	}
	return file
}

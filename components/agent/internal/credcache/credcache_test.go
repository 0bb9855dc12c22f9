package credcache

import (
	"bytes"
	"crypto/sha256"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"cadre.dev/overlay"
)

type boot string

func (b boot) Derive(purpose string) ([]byte, error) {
	sum := sha256.Sum256([]byte(string(b) + purpose))
	return sum[:], nil
}

func sample() State {
	return State{
		AppID: "a", InstanceID: "i", BootAt: time.Unix(1, 0).UTC(), Since: time.Unix(2, 0).UTC(),
		Grant: []byte("a secret value"), Config: []byte(`{"slot":"web-0"}`),
		Peers: []overlay.Peer{{
			ID: overlay.ID{Cluster: "c", Group: "g", Slot: "g-1"}, BootID: "b", InstanceID: "j", VIP: netip.MustParseAddr("127.50.1.2"),
			Offers:  []overlay.PortRef{{Protocol: overlay.TCP, Port: 80}},
			Accepts: []overlay.PortRef{{Protocol: overlay.UDP, Port: 81}, {Protocol: overlay.TCP, Port: 82, Loopback: true}}, Coordinator: true,
		}},
	}
}

func open(t *testing.T, dir string, b boot) *Store {
	t.Helper()
	s, err := Open(dir, b)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestTOK21_TheNextWorkerReadsTheLastOnesCredentials(t *testing.T) {
	dir := t.TempDir()
	if got, err := open(t, dir, "one").Load(); got != nil || err != nil {
		t.Fatalf("nothing was saved: %+v, %v", got, err)
	}
	want := sample()
	if err := open(t, dir, "one").Save(want); err != nil {
		t.Fatal(err)
	}
	got, err := open(t, dir, "one").Load()
	if err != nil || !reflect.DeepEqual(*got, want) {
		t.Errorf("got %+v, %v\nwant %+v", got, err, want)
	}
	data, err := os.ReadFile(filepath.Join(dir, fileName))
	if err != nil || bytes.Contains(data, []byte("secret")) || bytes.Contains(data, []byte("web-0")) {
		t.Errorf("the file can be read by anybody: %v", err)
	}
	if at, err := os.Stat(filepath.Join(dir, fileName)); err != nil || at.Mode() != 0o600 {
		t.Errorf("mode %v, %v", at.Mode(), err)
	}
}

func TestTOK21_UnusableCredentialsAreRemoved(t *testing.T) {
	for name, spoil := range map[string]func(data []byte) []byte{
		"half written":  func(data []byte) []byte { return data[:len(data)/2] },
		"empty":         func([]byte) []byte { return nil },
		"another byte":  func(data []byte) []byte { data[40] ^= 1; return data },
		"too long":      func(data []byte) []byte { return append(data, make([]byte, limit)...) },
		"another boots": nil,
	} {
		t.Run(name, func(t *testing.T) {
			dir, reader := t.TempDir(), boot("one")
			if err := open(t, dir, "one").Save(sample()); err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(dir, fileName)
			if spoil == nil {
				reader = "two"
			} else {
				data, err := os.ReadFile(path)
				if err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, spoil(data), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if got, err := open(t, dir, reader).Load(); got != nil || err == nil {
				t.Errorf("got %+v, %v", got, err)
			}
			if _, err := os.Stat(path); err == nil {
				t.Error("it is still there")
			}
		})
	}
}

func TestLeftoversOfAWriteAreRemoved(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "."+fileName+".123"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := open(t, dir, "one")
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("%v, %v", left, err)
	}
	if err := s.Remove(); err != nil {
		t.Errorf("a missing file: %v", err)
	}
}

package statement

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"
)

func exchanges(n int) []Exchange {
	out := make([]Exchange, n)
	for i := range out {
		a := sha256.Sum256(fmt.Appendf(nil, "exporter %d", i))
		b := sha256.Sum256(fmt.Appendf(nil, "nonce %d", i))
		out[i] = Exchange{Exporter: a[:], PeerNonce: b[:]}
	}
	return out
}

func batchOf(t *testing.T, n int) (Batch, [][][]byte) {
	t.Helper()
	root, paths, err := Gather(exchanges(n))
	if err != nil {
		t.Fatal(err)
	}
	return Batch{
		Cluster: "test", ClusterID: strings.Repeat("0f", 16), AppID: strings.Repeat("01", 20), Slot: "coordinator-0",
		TLSPublicKey: bytes.Repeat([]byte{0x30}, 91), Root: root, CABundleSHA256: bytes.Repeat([]byte{9}, 32),
	}, paths
}

func TestBatchCommitsToEachExchangeAtItsPlaceOnly(t *testing.T) {
	for _, n := range []int{1, 2, 3, 5, 8, 100, MaxBatch} {
		b, paths := batchOf(t, n)
		all := exchanges(n)
		for i, e := range all {
			if !b.Commits(e, uint32(i), paths[i]) {
				t.Fatalf("of %d: exchange %d is not in it", n, i)
			}
			if n > 1 && b.Commits(all[(i+1)%n], uint32(i), paths[i]) {
				t.Fatalf("of %d: another exchange passes at %d", n, i)
			}
			if n > 1 && b.Commits(e, uint32(i)^1, paths[i]) {
				t.Fatalf("of %d: exchange %d passes at another place", n, i)
			}
			if b.Commits(e, uint32(i)+1<<len(paths[i]), paths[i]) {
				t.Fatalf("of %d: index beyond the path passes", n)
			}
		}
		other := all[0]
		other.PeerNonce = bytes.Repeat([]byte{1}, 32)
		if b.Commits(other, 0, paths[0]) {
			t.Fatalf("of %d: another nonce passes", n)
		}
		if b.Commits(all[0], 0, append(paths[0], make([]byte, 32))) || n > 1 && b.Commits(all[0], 0, paths[0][1:]) {
			t.Fatalf("of %d: a path of another length passes", n)
		}
	}
}

// TestBatchKeepsLevelsApart: neither an inner node nor a filler passes as an
// exchange, and moving a byte from one field to the other changes the leaf.
func TestBatchKeepsLevelsApart(t *testing.T) {
	b, paths := batchOf(t, 4)
	all := exchanges(4)
	left, right := all[0].leaf(), all[1].leaf()
	forged := Exchange{Exporter: left[:], PeerNonce: right[:]}
	if b.Commits(forged, 0, paths[0][1:]) {
		t.Error("an inner node passes as an exchange")
	}
	e := Exchange{Exporter: []byte("ab"), PeerNonce: []byte("c")}
	f := Exchange{Exporter: []byte("a"), PeerNonce: []byte("bc")}
	if e.leaf() == f.leaf() {
		t.Error("fields run into each other")
	}
	if b.Commits(all[0], 0, make([][]byte, 1<<20)) {
		t.Error("an endless path passes")
	}
}

func TestGatherIsBounded(t *testing.T) {
	for _, n := range []int{0, MaxBatch + 1} {
		if _, _, err := Gather(exchanges(n)); err == nil {
			t.Errorf("%d exchanges were gathered", n)
		}
	}
}

func TestATT26_ABatchIsNoSingleStatementAndHasOneVersion(t *testing.T) {
	b, _ := batchOf(t, 3)
	if got, err := DecodeBatch(b.Encode()); err != nil || !reflect.DeepEqual(got, b) {
		t.Errorf("%+v, %v", got, err)
	}
	if err := b.Validate(); err != nil {
		t.Error(err)
	}
	if _, err := DecodeBatch(goodCoordinator().Encode()); !errors.Is(err, ErrNoncanonical) {
		t.Errorf("the older statement read as a batch: %v", err)
	}
	if _, err := DecodeCoordinator(b.Encode()); !errors.Is(err, ErrNoncanonical) {
		t.Errorf("a batch read as a single statement: %v", err)
	}
	for _, version := range []byte{0, 2, 255} {
		enc := b.Encode()
		enc[1] = version
		if _, err := DecodeBatch(enc); !errors.Is(err, ErrVersion) {
			t.Errorf("version %d: %v", version, err)
		}
	}
	if _, err := DecodeBatch(append(b.Encode(), 0)); !errors.Is(err, ErrNoncanonical) {
		t.Errorf("a trailing byte: %v", err)
	}
}

// TestBatchVectors pins the tree and the encoding: another implementation must
// come to the same bytes. Regenerate with UPDATE_VECTORS=1.
func TestBatchVectors(t *testing.T) {
	const file = "testdata/batch.json"
	type vector struct {
		Exchanges  int      `json:"exchanges"`
		Root       string   `json:"root"`
		LastPath   []string `json:"last_path"`
		Encoding   string   `json:"encoding"`
		ReportData string   `json:"report_data"`
	}
	var got []vector
	for _, n := range []int{1, 2, 3, 7, 8, 9} {
		b, paths := batchOf(t, n)
		data := b.ReportData()
		v := vector{Exchanges: n, Root: hex.EncodeToString(b.Root), LastPath: []string{}, Encoding: hex.EncodeToString(b.Encode()), ReportData: hex.EncodeToString(data[:])}
		for _, p := range paths[n-1] {
			v.LastPath = append(v.LastPath, hex.EncodeToString(p))
		}
		got = append(got, v)
	}
	if os.Getenv("UPDATE_VECTORS") != "" {
		text, err := json.MarshalIndent(got, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, append(text, '\n'), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var want []vector
	if err := json.Unmarshal(raw, &want); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v", got)
	}
}

func FuzzBatch(f *testing.F) {
	f.Add(Batch{}.Encode())
	f.Fuzz(func(t *testing.T, b []byte) {
		if s, err := DecodeBatch(b); err == nil && !bytes.Equal(s.Encode(), b) {
			t.Error("two encodings of one statement")
		}
	})
}

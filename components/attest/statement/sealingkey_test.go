package statement

import (
	"bytes"
	"errors"
	"reflect"
	"slices"
	"testing"
)

func goodSealingKey() SealingKey {
	return SealingKey{Coordinator: goodCoordinator(), KeyEpoch: 1, PublicKey: bytes.Repeat([]byte{5}, 32)}
}

// TestATT14_TOK23_ASealingKeyIsNoOtherStatement: the quote of another purpose proves no sealing key.
func TestATT14_TOK23_ASealingKeyIsNoOtherStatement(t *testing.T) {
	good := goodSealingKey()
	got, err := DecodeSealingKey(good.Encode())
	if err != nil || !reflect.DeepEqual(got, good) || got.Validate() != nil {
		t.Fatalf("%+v, %v", got, err)
	}
	for what, other := range map[string][]byte{"an agent's": goodAgent().Encode(), "a coordinator's": goodCoordinator().Encode()} {
		if _, err := DecodeSealingKey(other); !errors.Is(err, ErrNoncanonical) {
			t.Errorf("%s statement is read as a sealing key's: %v", what, err)
		}
	}
	if _, err := DecodeCoordinator(good.Encode()); !errors.Is(err, ErrNoncanonical) {
		t.Errorf("a sealing key's statement is read as a coordinator's: %v", err)
	}
	for what, change := range map[string]func(*SealingKey){
		"epoch": func(s *SealingKey) { s.KeyEpoch++ }, "key": func(s *SealingKey) { s.PublicKey = bytes.Repeat([]byte{6}, 32) },
		"cluster ID": func(s *SealingKey) { s.ClusterID = "1" + s.ClusterID[1:] }, "nonce": func(s *SealingKey) { s.PeerNonce = bytes.Repeat([]byte{1}, 32) },
	} {
		s := goodSealingKey()
		change(&s)
		if s.ReportData() == good.ReportData() {
			t.Errorf("the %s is not in the report data", what)
		}
	}
	for what, change := range map[string]func(*SealingKey){
		"epoch 0": func(s *SealingKey) { s.KeyEpoch = 0 }, "a short key": func(s *SealingKey) { s.PublicKey = s.PublicKey[:31] }, "no slot": func(s *SealingKey) { s.Slot = "" },
	} {
		s := goodSealingKey()
		change(&s)
		if _, err := DecodeSealingKey(s.Encode()); !errors.Is(err, ErrNoncanonical) || s.Validate() == nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	text := good.Encode()
	for n := range text {
		bad := slices.Clone(text)
		bad[n] ^= 1
		if got, err := DecodeSealingKey(bad); err == nil && reflect.DeepEqual(got, good) {
			t.Errorf("byte %d is changed, and the statement is the same", n)
		}
	}
}

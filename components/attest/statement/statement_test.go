package statement

import (
	"bytes"
	"crypto/sha512"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
)

func goodAgent() Agent {
	return Agent{
		Cluster: "test", ClusterID: strings.Repeat("0f", 16), Group: "web", Slot: "web-0",
		AppID: strings.Repeat("01", 20), InstanceID: strings.Repeat("03", 20), ComposeHash: strings.Repeat("02", 32),
		BootPublicKey: bytes.Repeat([]byte{0x30}, 91), Nonce: bytes.Repeat([]byte{7}, 88), Exporter: bytes.Repeat([]byte{8}, 32),
	}
}

func goodCoordinator() Coordinator {
	return Coordinator{
		Cluster: "test", ClusterID: strings.Repeat("0f", 16), AppID: strings.Repeat("01", 20), Slot: "coordinator-0",
		TLSPublicKey: bytes.Repeat([]byte{0x30}, 91), Exporter: bytes.Repeat([]byte{8}, 32),
		PeerNonce: bytes.Repeat([]byte{7}, 32), CABundleSHA256: bytes.Repeat([]byte{9}, 32),
	}
}

func TestVectors(t *testing.T) {
	raw, err := os.ReadFile("testdata/vectors.json")
	if err != nil {
		t.Fatal(err)
	}
	var want map[string]struct {
		Encoding   string `json:"encoding"`
		ReportData string `json:"report_data"`
	}
	if err := json.Unmarshal(raw, &want); err != nil {
		t.Fatal(err)
	}
	agent, coordinator := goodAgent(), goodCoordinator()
	for name, got := range map[string]struct {
		encoding []byte
		data     [64]byte
	}{
		"agent":       {agent.Encode(), agent.ReportData()},
		"coordinator": {coordinator.Encode(), coordinator.ReportData()},
	} {
		if enc := hex.EncodeToString(got.encoding); enc != want[name].Encoding {
			t.Errorf("%s encodes to %s", name, enc)
		}
		if data := hex.EncodeToString(got.data[:]); data != want[name].ReportData {
			t.Errorf("%s has report data %s", name, data)
		}
	}
}

// TestReportDataFollowsItsDefinition computes it a second time, by hand.
func TestReportDataFollowsItsDefinition(t *testing.T) {
	var enc []byte
	enc = append(enc, 0, 1)
	part := func(b string) {
		enc = binary.BigEndian.AppendUint32(enc, uint32(len(b)))
		enc = append(enc, b...)
	}
	s := goodAgent()
	for _, b := range []string{"cadre-agent-statement", s.Cluster, s.ClusterID, s.Group, s.Slot, s.AppID, s.InstanceID, s.ComposeHash, string(s.BootPublicKey), string(s.Nonce), string(s.Exporter)} {
		part(b)
	}
	if want := sha512.Sum512(append([]byte("cadre-agent-statement\x00"), enc...)); s.ReportData() != want {
		t.Errorf("report data %x, want %x", s.ReportData(), want)
	}
}

func TestRoundTrip(t *testing.T) {
	agent, err := DecodeAgent(goodAgent().Encode())
	if err != nil || !reflect.DeepEqual(agent, goodAgent()) {
		t.Errorf("agent %+v, error %v", agent, err)
	}
	coordinator, err := DecodeCoordinator(goodCoordinator().Encode())
	if err != nil || !reflect.DeepEqual(coordinator, goodCoordinator()) {
		t.Errorf("coordinator %+v, error %v", coordinator, err)
	}
	if err := errors.Join(agent.Validate(), coordinator.Validate()); err != nil {
		t.Error(err)
	}
	if p := agent.Policy(); p.Slot != "web-0" || p.ComposeHash != agent.ComposeHash || p.InstanceID != agent.InstanceID {
		t.Errorf("policy statement %+v", p)
	}
}

func TestATT14_PurposesDoNotMix(t *testing.T) {
	if _, err := DecodeCoordinator(goodAgent().Encode()); !errors.Is(err, ErrNoncanonical) {
		t.Errorf("an agent's statement read as a coordinator's: %v", err)
	}
	if _, err := DecodeAgent(goodCoordinator().Encode()); !errors.Is(err, ErrNoncanonical) {
		t.Errorf("a coordinator's statement read as an agent's: %v", err)
	}
}

func TestATT23_EveryFieldIsCommittedTo(t *testing.T) {
	base := goodAgent().ReportData()
	v := reflect.ValueOf(goodAgent())
	for i := range v.NumField() {
		s := goodAgent()
		f := reflect.ValueOf(&s).Elem().Field(i)
		if f.Kind() == reflect.String {
			f.SetString(f.String()[:f.Len()-1] + "4")
		} else {
			changed := bytes.Clone(f.Bytes())
			changed[0] ^= 1
			f.SetBytes(changed)
		}
		if s.ReportData() == base {
			t.Errorf("%s is not in the report data", v.Type().Field(i).Name)
		}
	}
}

func TestATT24_OnlyOneEncodingIsRead(t *testing.T) {
	good := goodAgent().Encode()
	for i := range good {
		for _, bit := range []byte{1, 0x80} {
			b := bytes.Clone(good)
			b[i] ^= bit
			s, err := DecodeAgent(b)
			// A changed byte inside a field is another statement, never the same one.
			if err == nil && reflect.DeepEqual(s, goodAgent()) {
				t.Errorf("byte %d changed: read as the same statement", i)
			}
			if err == nil && !bytes.Equal(s.Encode(), b) {
				t.Errorf("byte %d changed: accepted, but encodes to other bytes", i)
			}
		}
	}
	for i := range good {
		if _, err := DecodeAgent(good[:i]); err == nil {
			t.Errorf("cut to %d bytes: accepted", i)
		}
	}
	for name, b := range map[string][]byte{
		"trailing byte": append(bytes.Clone(good), 0),
		"doubled":       slices.Concat(good, good),
		"too long":      append(bytes.Clone(good), make([]byte, MaxSize)...),
		"huge length":   append(append(bytes.Clone(good[:2]), 0xff, 0xff, 0xff, 0xff), good[6:]...),
	} {
		if _, err := DecodeAgent(b); !errors.Is(err, ErrNoncanonical) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestATT24_FieldsOutOfBoundsAreRefused(t *testing.T) {
	for name, change := range map[string]func(*Agent){
		"upper-case slot":     func(s *Agent) { s.Slot = "Web-0" },
		"slash in group":      func(s *Agent) { s.Group = "a/b" },
		"empty cluster":       func(s *Agent) { s.Cluster = "" },
		"NUL":                 func(s *Agent) { s.Slot = "web\x000" },
		"look-alike":          func(s *Agent) { s.Slot = "wеb-0" },
		"invalid UTF-8":       func(s *Agent) { s.Slot = "web\xff" },
		"leading -":           func(s *Agent) { s.Slot = "-web" },
		"300 characters":      func(s *Agent) { s.Slot = strings.Repeat("a", 300) },
		"app id with 0x":      func(s *Agent) { s.AppID = "0x" + s.AppID[2:] },
		"upper-case app id":   func(s *Agent) { s.AppID = strings.Repeat("AB", 20) },
		"empty instance id":   func(s *Agent) { s.InstanceID = "" },
		"short compose hash":  func(s *Agent) { s.ComposeHash = s.ComposeHash[:62] },
		"no key":              func(s *Agent) { s.BootPublicKey = nil },
		"long key":            func(s *Agent) { s.BootPublicKey = make([]byte, 513) },
		"short nonce":         func(s *Agent) { s.Nonce = s.Nonce[:15] },
		"exporter of 31 byte": func(s *Agent) { s.Exporter = s.Exporter[:31] },
	} {
		s := goodAgent()
		change(&s)
		if s.Validate() == nil {
			t.Errorf("%s: valid", name)
		}
		if _, err := DecodeAgent(s.Encode()); !errors.Is(err, ErrNoncanonical) {
			t.Errorf("%s: decoded with %v", name, err)
		}
	}
}

func TestATT26_OtherVersionsAreRefused(t *testing.T) {
	for _, version := range []uint16{0, 2, 0xffff} {
		b := goodAgent().Encode()
		binary.BigEndian.PutUint16(b, version)
		if _, err := DecodeAgent(b); !errors.Is(err, ErrVersion) {
			t.Errorf("version %d: %v", version, err)
		}
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(goodAgent().Encode())
	f.Add(goodCoordinator().Encode())
	f.Fuzz(func(t *testing.T, b []byte) {
		if s, err := DecodeAgent(b); err == nil && !bytes.Equal(s.Encode(), b) {
			t.Errorf("accepted %x, which encodes to %x", b, s.Encode())
		}
		if s, err := DecodeCoordinator(b); err == nil && !bytes.Equal(s.Encode(), b) {
			t.Errorf("accepted %x, which encodes to %x", b, s.Encode())
		}
	})
}

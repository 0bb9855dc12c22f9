package attest

import (
	"context"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/hex"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"cadre.dev/attest/attestsim"
)

// TestMachineOfRealQuotes compares the names with the values that openssl shows in the certificates.
func TestMachineOfRealQuotes(t *testing.T) {
	v, err := NewVerifier(VerifierConfig{Now: fixedNow(t, "2026-07-01")})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"v4_azure_attr0":           "platform-instance:0a7f95b7dd035cae4da2fe07fbcf0afe",
		"v4_module_TDX_03":         "platform-instance:02eaf5ba6b16c479d53c39d74a1e1999",
		"v5_1":                     "platform-instance:6a9ea3b8d9e734495dc40b70f595f961",
		"v5_3":                     "platform-instance:056d0350250988808a9d09103f3e54d5",
		"near-mpc-71e4107554":      "platform-instance:2234751da3917ef3f1031ecd9681ecc2",
		"dstack-tdx-lite-getquote": "platform-instance:527bf28abbd440a096eeb745e033813d",
	} {
		var raw []byte
		if strings.HasPrefix(name, "v") {
			raw = evidenceFile(t, "quotes", name+".bin")
		} else {
			var ev struct {
				Quote string `json:"quote"`
			}
			if err := json.Unmarshal(evidenceFile(t, "evidence", name+".json"), &ev); err != nil {
				t.Fatal(err)
			}
			if raw, err = hex.DecodeString(ev.Quote); err != nil {
				t.Fatal(err)
			}
		}
		quote, err := parseQuote(raw)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		chain, err := v.chainOf(quote)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if chain.name != want {
			t.Errorf("%s: %q, want %q", name, chain.name, want)
		}
	}
}

func pckWith(pairs any) *x509.Certificate {
	value, err := asn1.Marshal(pairs)
	if err != nil {
		panic(err)
	}
	return &x509.Certificate{Extensions: []pkix.Extension{{Id: sgxExtensionID, Value: value}}}
}

type sgxPair struct {
	ID    asn1.ObjectIdentifier
	Value any
}

func TestMachineNameIsReadStrictly(t *testing.T) {
	id := func(b byte) []byte { return append(make([]byte, 15), b) }
	many := make([]sgxPair, 33)
	for i := range many {
		many[i] = sgxPair{append(append(asn1.ObjectIdentifier{}, sgxExtensionID...), 100+i), i}
	}
	one := pckWith([]sgxPair{{ppidID, id(1)}}).Extensions[0]
	for _, c := range []struct {
		name    string
		cert    *x509.Certificate
		want    string
		problem string
	}{
		{"platform: its instance counts", pckWith([]sgxPair{{ppidID, id(1)}, {platformInstance, id(2)}}), "platform-instance:" + hex.EncodeToString(id(2)), ""},
		{"platform instance of zeros", pckWith([]sgxPair{{ppidID, id(1)}, {platformInstance, id(0)}}), "ppid:" + hex.EncodeToString(id(1)), ""},
		{"processor", pckWith([]sgxPair{{ppidID, id(1)}}), "ppid:" + hex.EncodeToString(id(1)), ""},
		{"zeros only", pckWith([]sgxPair{{ppidID, id(0)}}), "", ""},
		{"neither", pckWith([]sgxPair{}), "", ""},
		{"PPID twice", pckWith([]sgxPair{{ppidID, id(1)}, {ppidID, id(1)}}), "", "is there twice"},
		{"instance twice", pckWith([]sgxPair{{platformInstance, id(1)}, {platformInstance, id(2)}}), "", "is there twice"},
		{"short", pckWith([]sgxPair{{ppidID, id(1)[1:]}}), "", "15 bytes"},
		{"long", pckWith([]sgxPair{{platformInstance, append(id(1), 1)}}), "", "17 bytes"},
		{"a number", pckWith([]sgxPair{{ppidID, 5}}), "", "not an octet string"},
		{"too many pairs", pckWith(many), "", "the limit is 32"},
		{"too large", pckWith([]sgxPair{{ppidID, make([]byte, 5000)}}), "", "the limit is 4096"},
		{"two extensions", &x509.Certificate{Extensions: []pkix.Extension{one, one}}, "", "two SGX extensions"},
		{"bytes after the list", &x509.Certificate{Extensions: []pkix.Extension{{Id: sgxExtensionID, Value: append(one.Value[:len(one.Value):len(one.Value)], 5, 0)}}}, "", "2 bytes after"},
		{"three parts", pckWith([]struct {
			ID   asn1.ObjectIdentifier
			A, B []byte
		}{{ppidID, id(1), id(2)}}), "", "after its value"},
		{"no extension", &x509.Certificate{}, "", "not a list"},
	} {
		got, err := machineName(c.cert)
		if got != c.want || (err == nil) != (c.problem == "") || err != nil && !strings.Contains(err.Error(), c.problem) {
			t.Errorf("%s: %q, %v; want %q and a problem with %q", c.name, got, err, c.want, c.problem)
		}
	}
}

// TestMachinesOfASimulatedCloud: each number is a machine of its own, an update of the firmware
// keeps the name, and another registration changes it.
func TestMachinesOfASimulatedCloud(t *testing.T) {
	dir := t.TempDir()
	open := func() *attestsim.Cloud {
		c, err := attestsim.OpenCloud(dir)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	cloud := open()
	name := func(c *attestsim.Cloud, host string) string {
		t.Helper()
		raw, err := c.Quote(host, attestsim.Report{TDAttributes: attestsim.HealthyTDAttributes}, attestsim.RealQE())
		if err != nil {
			t.Fatal(err)
		}
		v, err := NewVerifier(VerifierConfig{RootsPEM: c.RootPEM(), Now: func() time.Time { return time.Date(2026, 7, 1, 0, 0, 0, 0, time.UTC) }})
		if err != nil {
			t.Fatal(err)
		}
		quote, err := parseQuote(raw)
		if err != nil {
			t.Fatal(err)
		}
		chain, err := v.verifySignatures(quote)
		if err != nil {
			t.Fatal(err)
		}
		return chain.name
	}
	if _, err := cloud.Collateral(time.Now(), attestsim.Posture{RevokedHosts: []string{attestsim.MachineName(2)}}); err != nil {
		t.Fatal(err)
	}
	zero, one := name(cloud, attestsim.MachineName(0)), name(cloud, attestsim.MachineName(1))
	if zero == one || zero == "" {
		t.Fatalf("machines 0 and 1 are %q and %q", zero, one)
	}
	if again := open(); name(again, "") != zero || name(again, attestsim.MachineName(1)) != one {
		t.Error("a reopened cloud has other machines")
	}
	if updated := name(cloud, attestsim.UpdatedHost(attestsim.MachineName(1))); updated != one {
		t.Errorf("an update of the firmware makes %s of %s", updated, one)
	}
	cloud.Reregister(attestsim.MachineName(1))
	if after := name(cloud, attestsim.MachineName(1)); after == one || after == zero {
		t.Errorf("the registered machine is still %s", after)
	} else if updated := name(cloud, attestsim.UpdatedHost(attestsim.MachineName(1))); updated != after {
		t.Errorf("the update of the registered machine is %s, want %s", updated, after)
	}
	if name(cloud, "") != zero {
		t.Error("another registration of machine 1 changed machine 0")
	}
}

func TestClaimsNameTheMachineAndItIsNotPrinted(t *testing.T) {
	f := newFake(t)
	claims, err := f.verifier(t).Verify(context.Background(), f.evidence(t), f.report.ReportData)
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(claims)
	if err != nil {
		t.Fatal(err)
	}
	_, id, _ := strings.Cut(claims.Machine, ":")
	if len(id) != 32 || strings.Contains(string(text), id) {
		t.Errorf("machine %q in %s", claims.Machine, text)
	}
}

// FuzzMachineName: any extension leads to a name of the right form, to none, or to an error.
func FuzzMachineName(f *testing.F) {
	f.Add(pckWith([]sgxPair{{ppidID, make([]byte, 16)}, {platformInstance, []byte("0123456789abcdef")}}).Extensions[0].Value)
	f.Add([]byte{0x30, 0x80, 0, 0})
	f.Add([]byte(nil))
	f.Fuzz(func(t *testing.T, extension []byte) {
		name, err := machineName(&x509.Certificate{Extensions: []pkix.Extension{{Id: sgxExtensionID, Value: extension}}})
		kind, id, ok := strings.Cut(name, ":")
		switch {
		case err != nil && name != "", err == nil && name != "" && (!ok || kind == "" || len(id) != 32):
			t.Errorf("%q, %v", name, err)
		}
	})
}

package backup

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"cadre.dev/core/policy"
)

const id = "0123456789abcdef0123456789abcdef"

var (
	key  = bytes.Repeat([]byte{7}, KeySize)
	want = Expect{Cluster: "demo", ClusterID: id}
)

func header() Header {
	return Header{Cluster: "demo", ClusterID: id, At: time.Unix(1700000000, 0).UTC(), Term: 3, State: 9,
		Kinds: map[string]int{"cluster_id": 1, "groups/<group>/spec": 2}}
}

func file(t testing.TB) []byte {
	t.Helper()
	text, err := Encode(header(), []Record{
		{"cluster_id", []byte(`{"cluster_id":"` + id + `"}`)}, {"groups/a/spec", []byte("\xff\x00 no JSON\n")}, {"groups/b/spec", []byte("{}")},
	}, key)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestAFileHasTheRecordsByteForByte(t *testing.T) {
	h, records, err := Open(file(t), want, key)
	if err != nil || len(records) != 3 || h.Records != 3 || h.Term != 3 || h.State != 9 {
		t.Fatalf("%+v, %v, %v", h, records, err)
	}
	if string(records[1].Value) != "\xff\x00 no JSON\n" {
		t.Errorf("%q", records[1].Value)
	}
	if _, err := Inspect(file(t), want); err != nil {
		t.Error(err)
	}
}

// TestGEN03_EachFaultOfAFileHasItsOwnError.
func TestGEN03_EachFaultOfAFileHasItsOwnError(t *testing.T) {
	whole := file(t)
	lines := bytes.SplitAfter(whole, []byte{'\n'})
	swap := func(old, new string) []byte { return bytes.Replace(whole, []byte(old), []byte(new), 1) }
	join := func(parts ...[]byte) []byte { return bytes.Join(parts, nil) }
	for name, c := range map[string]struct {
		file  []byte
		want  Expect
		code  policy.Code
		parts string
		// onlyMAC: Inspect accepts the file.
		onlyMAC bool
	}{
		"empty":                   {nil, want, CodeInvalid, "no backup", false},
		"another format":          {[]byte("{\"a\":1}\n"), want, CodeInvalid, "no backup", false},
		"a snapshot of Consul":    {bytes.Repeat([]byte{0x1f}, 1<<20), want, CodeInvalid, "no backup", false},
		"an older version":        {swap(`"version":1`, `"version":0`), want, CodeVersion, "format version 0", false},
		"a newer version":         {swap(`"version":1`, `"version":2,"new":1`), want, CodeVersion, "format version 2", false},
		"another cluster's name":  {whole, Expect{"prod", id}, CodeCluster, `"demo"`, false},
		"another cluster's ID":    {whole, Expect{"demo", strings.Repeat("ab", 16)}, CodeCluster, id, false},
		"an unknown field":        {swap(`"version":1`, `"version":1,"extra":1`), want, CodeInvalid, "extra", false},
		"a damaged cluster ID":    {swap(id, strings.ToUpper(id)), want, CodeInvalid, "cluster ID", false},
		"wrong counts":            {swap(`"groups/\u003cgroup\u003e/spec":2`, `"groups/\u003cgroup\u003e/spec":1`), want, CodeInvalid, "sum", false},
		"an edited record":        {swap(`"e30="`, `"e31="`), want, CodeMAC, "edited", true},
		"an edited header":        {swap(`"term":3`, `"term":4`), want, CodeMAC, "edited", true},
		"a record less":           {join(lines[0], lines[1], lines[2], lines[4]), want, CodeMAC, "edited", false},
		"two records exchanged":   {join(lines[0], lines[2], lines[1], lines[3], lines[4]), want, CodeMAC, "edited", false},
		"without the MAC":         {join(lines[0], lines[1], lines[2], lines[3]), want, CodeTruncated, "MAC", false},
		"cut within the header":   {whole[:40], want, CodeTruncated, "header", false},
		"only the header":         {lines[0], want, CodeTruncated, "3 records", false},
		"cut within a record":     {whole[:len(whole)-len(lines[4])-3], want, CodeTruncated, "3 records", false},
		"a MAC in upper case":     {swap(string(lines[4]), strings.ToUpper(string(lines[4]))), want, CodeTruncated, "MAC", false},
		"a MAC that is too short": {join(whole[:len(whole)-len(lines[4])], []byte("{\"hmac_sha256\":\"ab\"}\n")), want, CodeInvalid, "hmac_sha256", false},
	} {
		_, records, err := Open(c.file, c.want, key)
		if CodeOf(err) != c.code || !strings.Contains(err.Error(), c.parts) || records != nil {
			t.Errorf("%s: %v, want %s with %q", name, err, c.code, c.parts)
		}
		if _, err := Inspect(c.file, c.want); (err == nil) != c.onlyMAC {
			t.Errorf("%s without the key: %v", name, err)
		}
	}
	if _, _, err := Open(whole, want, bytes.Repeat([]byte{8}, KeySize)); CodeOf(err) != CodeMAC {
		t.Errorf("another key: %v", err)
	}
	if _, _, err := Open(whole, want, nil); err == nil {
		t.Error("without a key")
	}
}

// TestGEN03_NoPartOfAFileIsRestored: each prefix of a file is refused.
func TestGEN03_NoPartOfAFileIsRestored(t *testing.T) {
	whole := file(t)
	for n := range whole {
		if _, _, err := Open(whole[:n], want, key); err == nil {
			t.Fatalf("the first %d of %d bytes are accepted", n, len(whole))
		}
		edited := bytes.Clone(whole)
		edited[n] ^= 1
		if _, _, err := Open(edited, want, key); err == nil {
			t.Fatalf("byte %d is edited, and the file is accepted", n)
		}
	}
}

func TestEncodeMakesNoFileThatOpenRefuses(t *testing.T) {
	for name, records := range map[string][]Record{
		"none": nil, "unsorted": {{"b", nil}, {"a", nil}, {"c", nil}}, "twice": {{"a", nil}, {"a", nil}, {"c", nil}}, "without a key": {{"", nil}, {"a", nil}, {"c", nil}},
	} {
		if _, err := Encode(header(), records, key); CodeOf(err) != CodeInvalid {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// FuzzOpen: no file is accepted that Encode did not write.
func FuzzOpen(f *testing.F) {
	whole := file(f)
	f.Add(whole)
	f.Add(whole[:len(whole)-10])
	f.Fuzz(func(t *testing.T, text []byte) {
		h, _ := Inspect(text, want)
		if _, err := json.Marshal(h); err != nil {
			t.Fatal(err)
		}
		if _, _, err := Open(text, want, key); err == nil && !bytes.Equal(text, whole) {
			t.Fatalf("accepted: %q", text)
		}
	})
}

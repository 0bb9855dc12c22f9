package appcompose

import (
	"encoding/json"
	"strings"
	"testing"
)

const (
	vectorA  = `{"allowed_envs":["B","A"],"docker_compose_file":"services:\n  app:\n    image: nginx:1.27\n","gateway_enabled":true,"key_provider":"kms","kms_enabled":true,"manifest_version":2,"name":"web-0","public_logs":false,"public_sysinfo":true,"runner":"docker-compose","secure_time":false}`
	hashA    = "4e2dcf86072305d02af2153ed3f74fe090d13c87bf809158b2431a4e036acced"
	hashB    = "6d6fb03a19f361fee9625264394af93a38615593106ab2cb97ee4c59bc055161"
	composeA = "services:\n  app:\n    image: nginx:1.27\n"
	composeB = composeA + "    command: sh -c 'a && b > /tmp/x'\n"
)

func fields(compose string) Fields {
	return Fields{Name: "web-0", DockerComposeFile: compose, AllowedEnvs: []string{"B", "A"}, KeyProvider: "kms", GatewayEnabled: true, PublicSysinfo: true}
}

func TestATT15_VectorsOfThePlatform(t *testing.T) {
	if got := Hash([]byte(vectorA)); got != hashA {
		t.Errorf("hash of A = %s", got)
	}
	raw, err := Build(fields(composeA))
	if err != nil || string(raw) != vectorA {
		t.Errorf("Build A = %s, %v", raw, err)
	}
	raw, err = Build(fields(composeB))
	if err != nil || Hash(raw) != hashB {
		t.Errorf("Build B = %s, hash %s, %v", raw, Hash(raw), err)
	}
}

func TestEncodeEscapesAsOthersDo(t *testing.T) {
	got, err := Encode(map[string]any{"b": "<&>\u2028\u2029\\u2028é\x7f\x01\b\f\t\"/", "a": []any{nil, true, 1, int64(2), json.Number("3.50"), map[string]any{}}})
	want := `{"a":[null,true,1,2,3.50,{}],"b":"<&>` + "\u2028\u2029" + `\\u2028é` + "\x7f" + `\u0001\b\f\t\"/"}`
	if err != nil || string(got) != want {
		t.Errorf("Encode = %s, %v, want %s", got, err, want)
	}
	for name, doc := range map[string]map[string]any{"a float": {"a": 1.5}, "not UTF-8": {"a": "\xff"}, "a key beyond ASCII": {"é": 1}} {
		if got, err := Encode(doc); err == nil {
			t.Errorf("%s: %s", name, got)
		}
	}
}

func TestBuildRefuses(t *testing.T) {
	for want, change := range map[string]func(*Fields){
		"docker_compose_file": func(f *Fields) { f.DockerComposeFile = " \n" },
		"key_provider:":       func(f *Fields) { f.KeyProvider = "usb" },
		"key_provider_id":     func(f *Fields) { f.KeyProviderID = "ABC" },
		"storage_fs":          func(f *Fields) { f.StorageFS = "fat" },
		"at most 262144":      func(f *Fields) { f.DockerComposeFile = strings.Repeat("x", MaxSize) },
	} {
		f := fields(composeA)
		change(&f)
		if _, err := Build(f); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
	f := fields(composeA)
	yes := true
	f.PublicTcbinfo, f.StorageFS, f.SwapSize, f.PreLaunchScript, f.KeyProviderID = &yes, "zfs", 5, "x", "30"
	raw, err := Build(f)
	for _, part := range []string{`"public_tcbinfo":true`, `"storage_fs":"zfs"`, `"swap_size":5`, `"pre_launch_script":"x"`, `"key_provider_id":"30"`} {
		if err != nil || !strings.Contains(string(raw), part) {
			t.Errorf("no %s in %s (%v)", part, raw, err)
		}
	}
}

func TestReadAndOddities(t *testing.T) {
	d, err := Read([]byte(vectorA))
	if err != nil || d.Name != "web-0" || d.Provider() != "kms" || len(d.AllowedEnvs) != 2 || d.DockerComposeFile != composeA {
		t.Errorf("Read = %+v, %v", d, err)
	}
	for _, bad := range []string{"", " ", composeA, "{", "[]", `{"name":1}`, "{}" + strings.Repeat(" ", MaxSize)} {
		if d, err := Read([]byte(bad)); err == nil {
			t.Errorf("%.20q is read as %+v", bad, d)
		}
	}
	for text, want := range map[string]string{
		"\xef\xbb\xbf{}": "byte order mark", "{}\n": "ends with a newline", "{\r\n}": "CR LF", `{"a":"\u0026"}`: "encoder",
	} {
		if got := Oddities([]byte(text)); len(got) != 1 || !strings.Contains(got[0], want) {
			t.Errorf("%q: %v", text, got)
		}
	}
	if got := Oddities([]byte(vectorA)); len(got) > 0 {
		t.Errorf("vector A is odd: %v", got)
	}
	for want, doc := range map[string]Document{"none": {}, "local": {LocalKeyProvider: true}, "tpm": {KeyProvider: "tpm", KMSEnabled: true}} {
		if got := doc.Provider(); got != want {
			t.Errorf("%+v: %s", doc, got)
		}
	}
}

func FuzzAppCompose(f *testing.F) {
	f.Add([]byte(vectorA))
	f.Add([]byte("\xef\xbb\xbf{\"docker_compose_file\":\"\u2028\", \"n\": 1e400}\r\n"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		if _, err := Read(raw); err != nil {
			return
		}
		doc, err := Fieldset(raw)
		if err != nil {
			return
		}
		once, err := Encode(doc)
		if err != nil {
			return
		}
		again, err := Fieldset(once)
		if err != nil {
			t.Fatalf("%q is written as %q, which cannot be read: %v", raw, once, err)
		}
		if twice, err := Encode(again); err != nil || string(once) != string(twice) {
			t.Errorf("%q is written as %q, then as %q (%v)", raw, once, twice, err)
		}
		Oddities(raw)
	})
}

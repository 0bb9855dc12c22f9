package relock

import (
	"strings"
	"testing"
)

var digest = strings.Repeat("0c", 32)

func TestURIsOfAnyMirrorBecomeRelative(t *testing.T) {
	got, err := parseURIs([]byte(
		"'https://mirror.example/some/where/debian-security/pool/updates/main/g/gcc/libstdc%2b%2b6_12_amd64.deb' libstdc++6_1%3a12-3~x_amd64.deb 612604 SHA256:" + digest + "\n" +
			"'http://deb.debian.org/debian/pool/main/d/debconf/debconf_1.5.82_all.deb' debconf_1.5.82_all.deb 121212 SHA256:" + digest + "\n"))
	if err != nil || len(got) != 2 {
		t.Fatalf("%v %v", got, err)
	}
	if d := got[0]; d.Name != "debconf" || d.Path != "debian/pool/main/d/debconf/debconf_1.5.82_all.deb" || d.Size != 121212 || d.SHA256 != digest {
		t.Errorf("%+v", d)
	}
	if d := got[1]; d.Name != "libstdc++6" || d.Version != "1:12-3~x" || d.Path != "debian-security/pool/updates/main/g/gcc/libstdc++6_12_amd64.deb" {
		t.Errorf("%+v", d)
	}
}

func TestURIsWithoutADigestAreRefused(t *testing.T) {
	for _, line := range []string{
		"'http://deb.debian.org/debian/pool/main/d/dash/dash_1_amd64.deb' dash_1_amd64.deb 10 MD5Sum:00",
		"'http://deb.debian.org/other/pool/main/d/dash/dash_1_amd64.deb' dash_1_amd64.deb 10 SHA256:" + digest,
		"E: Unable to locate package",
	} {
		if got, err := parseURIs([]byte(line + "\n")); err == nil {
			t.Errorf("%q: %v", line, got)
		}
	}
}

func TestReport(t *testing.T) {
	got, err := parseReport([]byte(`{"version":"1","install":[
		{"download_info":{"url":"https://files.example/packages/ab/PyYAML-6.0.3-cp311-cp311-manylinux2014_x86_64.whl","archive_info":{"hashes":{"sha256":"` + digest + `"}}},
		 "metadata":{"name":"PyYAML","version":"6.0.3"}}]}`))
	if err != nil || len(got) != 1 {
		t.Fatalf("%v %v", got, err)
	}
	if w := got[0]; w.Name != "pyyaml" || w.File != "PyYAML-6.0.3-cp311-cp311-manylinux2014_x86_64.whl" || w.SHA256 != digest {
		t.Errorf("%+v", w)
	}
}

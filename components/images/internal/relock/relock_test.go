package relock

import (
	"os"
	"os/exec"
	"path/filepath"
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

// TestAptKnowsNothingOfTheMachine but the ways to its mirrors.
func TestAptKnowsNothingOfTheMachine(t *testing.T) {
	if _, err := exec.LookPath("apt-config"); err != nil {
		t.Skip("skipped: this machine has no apt")
	}
	machine := t.TempDir()
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(machine, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(machine, "parts"), 0o700); err != nil {
		t.Fatal(err)
	}
	write("main", "APT::Default-Release \"other\";\n")
	write("parts/99own", "Acquire::Check-Valid-Until \"false\";\nAcquire::http::Proxy \"http://proxy.example:3128\";\n")
	write("first", "Dir::Etc::main \""+machine+"/main\";\nDir::Etc::parts \""+machine+"/parts\";\nAPT::Solver \"external\";\n")
	t.Setenv("APT_CONFIG", filepath.Join(machine, "first"))
	a := &apt{dir: t.TempDir()}
	cmd, err := a.command(t.Context(), "apt-config", "dump")
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, foreign := range []string{"Default-Release", "Check-Valid-Until", "external"} {
		if strings.Contains(string(out), foreign) {
			t.Errorf("apt knows %s of the machine", foreign)
		}
	}
	if want := `Acquire::http::Proxy "http://proxy.example:3128";`; !strings.Contains(string(out), want) {
		t.Errorf("apt does not know %s", want)
	}
}

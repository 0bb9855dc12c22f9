package driver

import "testing"

func TestTheDataOfEtcdIsOfTheNewerVersion(t *testing.T) {
	for in, want := range map[[2]string]string{
		{"3.5.0", ""}: "3.5.0", {"3.6.0", "3.6.0"}: "3.6.0", {"3.6.0", "3.5.0"}: "3.6.0", {"3.5.0", "3.6.0"}: "3.6.0",
		{"", "3.6.0"}: "3.6.0", {"not_decided", ""}: "", {"", ""}: "", {"newest", "3"}: "3",
	} {
		if got := etcdData(in[0], in[1]); got != want {
			t.Errorf("cluster %q, storage %q: %q, want %q", in[0], in[1], got, want)
		}
	}
}

func TestTheMajorVersionOfPostgreSQL(t *testing.T) {
	for in, want := range map[int64]string{150014: "15", 100001: "10", 180000: "18", 90624: "", 0: "", -1: ""} {
		if got := (patroniStatus{ServerVersion: in}).major(); got != want {
			t.Errorf("%d: %q, want %q", in, got, want)
		}
	}
}

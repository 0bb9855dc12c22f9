package version

import "testing"

func TestParse(t *testing.T) {
	for text, want := range map[string]string{
		"3.6.16": "3.6.16", "v3.6.16": "3.6.16", "17": "17", "17.2-bookworm": "17.2", "4.1-IV1": "4.1", "3.6.0-rc.1": "3.6.0",
		"": "", "latest": "", "v": "", "vv3.6": "", "3..6": "", ".3": "", "3.": "", "03.6": "", "3.6.0.0.0": "", "3.6-": "", "3.6 ": "",
		"+3": "", "-3": "", "18beta1": "", "3.6-a/b": "", "1234567": "", "99999999999999999999": "", "3.６": "",
	} {
		v, ok := Parse(text)
		if v.String() != want || ok != (want != "") || v.Known() != ok {
			t.Errorf("%q reads as %q, %t; want %q", text, v, ok, want)
		}
	}
}

func TestLinesAndOrder(t *testing.T) {
	read := func(text string) Version { v, _ := Parse(text); return v }
	if got := read("3.6.16").Line(2); got != "3.6" {
		t.Errorf("the line is %q", got)
	}
	if got := read("3").Line(2); got != "" {
		t.Errorf("a short version has the line %q", got)
	}
	if read("3.5.9").Compare(read("3.5.20")) >= 0 || read("3.6").Compare(read("3.6.0")) != 0 || read("10.0").Compare(read("9.9")) <= 0 {
		t.Error("the order is not that of the numbers")
	}
	if !read("3.6").Names(read("3.6.16")) || !read("3.6.16").Names(read("3.6")) || read("3.6").Names(read("3.7")) {
		t.Error("3.6 names exactly the releases of 3.6")
	}
}

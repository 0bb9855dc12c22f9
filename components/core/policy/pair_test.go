package policy

import "testing"

// twoImages is admissible() with a later Revision of the same compose hash and another OS
// image.
func twoImages() exchange {
	e := admissible()
	moved := e.sp.Allowed[1]
	moved.Revision, moved.OSImage = "moved", "dstack-0.5.8"
	e.sp.Allowed = append(e.sp.Allowed, moved)
	return e
}

// onNewImage is e with the measurements of the later Revision's image.
func (e exchange) onNewImage() exchange {
	m := e.ip.Images["dstack-0.5.8"][0]
	e.c.MRTD, e.c.RTMR0, e.c.RTMR1, e.c.RTMR2 = m.MRTD, m.RTMR0, m.RTMR1, m.RTMR2
	return e
}

func TestATT15_ATT20_ARevisionIsAPairOfHashAndImage(t *testing.T) {
	third := Measurement{MRTD: digits("6", 96), RTMR0: digits("6", 96), RTMR1: digits("6", 96), RTMR2: digits("6", 96)}
	for name, c := range map[string]struct {
		edit func(*exchange)
		// of a Boot of the old image, and of one of the new
		old, moved         string
		oldCode, movedCode Code
	}{
		"each at its own":        {func(*exchange) {}, "new", "moved", "", ""},
		"whatever the order":     {func(e *exchange) { a := e.sp.Allowed; a[1], a[2] = a[2], a[1] }, "new", "moved", "", ""},
		"the old pair has gone":  {func(e *exchange) { e.sp.Allowed = e.sp.Allowed[2:] }, "", "moved", CodeOSImageForbidden, ""},
		"the new one is not yet": {func(e *exchange) { e.sp.Allowed = e.sp.Allowed[:2] }, "new", "", "", CodeOSImageForbidden},
		"the old one is revoked": {func(e *exchange) { e.sp.Revoked = []Revocation{{Kind: RevokedRevision, ID: "new"}} },
			"", "moved", CodeRevisionNotAllowed, ""},
		"the new one is revoked": {func(e *exchange) { e.sp.Revoked = []Revocation{{Kind: RevokedRevision, ID: "moved"}} },
			"new", "", "", CodeRevisionNotAllowed},
		"the hash is revoked": {func(e *exchange) { e.sp.Revoked = []Revocation{{Kind: RevokedRevision, ID: digits("c", 64)}} },
			"", "", CodeRevisionNotAllowed, CodeRevisionNotAllowed},
		"a floor between them": {func(e *exchange) { e.sp.Floor, e.sp.Allowed[1].Number, e.sp.Allowed[2].Number = 2, 1, 2 },
			"", "moved", CodeRevisionBelowFloor, ""},
		"the new one is not approved": {func(e *exchange) { e.sp.RequireApproval, e.sp.Allowed[1].Approved = true, true },
			"new", "", "", CodeRevisionNotApproved},
		"a third shape of the old image": {func(e *exchange) { e.ip.Images["dstack-0.5.7"] = append(e.ip.Images["dstack-0.5.7"], third) },
			"new", "moved", "", ""},
		"two names for one image": {func(e *exchange) { e.ip.Images["dstack-0.5.8"] = e.ip.Images["dstack-0.5.7"][1:] },
			"moved", "moved", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			e := twoImages()
			c.edit(&e)
			if d := e.appraise(); d.Revision != c.old || d.Allowed != (c.old != "") || d.Code != c.oldCode {
				t.Errorf("a boot of the old image: %+v, want revision %q, code %q", d, c.old, c.oldCode)
			}
			if d := e.onNewImage().appraise(); d.Revision != c.moved || d.Allowed != (c.moved != "") || d.Code != c.movedCode {
				t.Errorf("a boot of the new image: %+v, want revision %q, code %q", d, c.moved, c.movedCode)
			}
		})
	}
}

func TestProves(t *testing.T) {
	e := twoImages()
	for i, want := range []bool{false, true, false} {
		if got := e.ip.Proves(e.c, e.sp.Allowed[i]); got != want {
			t.Errorf("a boot of the old image proves %s: %v, want %v", e.sp.Allowed[i].Revision, got, want)
		}
		if got := e.ip.Proves(e.onNewImage().c, e.sp.Allowed[i]); got != (i == 2) {
			t.Errorf("a boot of the new image proves %s: %v", e.sp.Allowed[i].Revision, got)
		}
	}
	none := e.sp.Allowed[1]
	none.Revision = ""
	if e.ip.Proves(e.c, none) || e.ip.Proves(Claims{}, AllowedRevision{}) || (ImagePolicy{}).Proves(e.c, e.sp.Allowed[1]) {
		t.Error("nothing proves something")
	}
}

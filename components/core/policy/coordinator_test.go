package policy

import "testing"

// TestATT22_ACoordinatorIsRecognizedByItsApp: another coordinator goes by the app, the key provider, the image and
// the machine; which compose file it runs is not judged.
func TestATT22_ACoordinatorIsRecognizedByItsApp(t *testing.T) {
	for name, c := range map[string]struct {
		edit func(*exchange)
		want Code
	}{
		"a coordinator":                             {func(*exchange) {}, ""},
		"of another compose file":                   {func(e *exchange) { e.c.ComposeHash, e.c.ComposeText = digits("9", 64), "other" }, ""},
		"another app":                               {func(e *exchange) { e.c.AppID = digits("9", 40) }, CodeAppIDMismatch},
		"no app, and none is pinned":                {func(e *exchange) { e.sp.AppID, e.c.AppID = "", "" }, CodeAppIDMismatch},
		"a simulated root":                          {func(e *exchange) { e.c.Simulated = true }, CodeTEETypeForbidden},
		"a simulated root, named":                   {func(e *exchange) { e.c.Simulated, e.ip.AllowSimulated = true, true }, ""},
		"a real one beside it":                      {func(e *exchange) { e.ip.AllowSimulated = true }, ""},
		"an app-compose.json that cannot be judged": {func(e *exchange) { e.c.AppComposeProblem = "pre_launch_script" }, CodeComposeForbidden},
		"another key provider":                      {func(e *exchange) { e.c.KeyProviderID = "00fe" }, CodeKMSPolicyMismatch},
		"another image":                             {func(e *exchange) { e.c.RTMR2 = digits("8", 96) }, CodeMeasurementMismatch},
		"a machine out of date":                     {func(e *exchange) { e.c.TCB.Status = "OutOfDate" }, CodeTCBOutOfDate},
		"no pins":                                   {func(e *exchange) { e.ip = ImagePolicy{} }, CodePolicyInvalid},
	} {
		e := admissible()
		c.edit(&e)
		d := AppraiseCoordinator(e.ip, e.sp.AppID, e.c, noon)
		if d.Code != c.want || d.Allowed != (c.want == "") || (d.Message == "") != d.Allowed {
			t.Errorf("%s: %+v, want %q", name, d, c.want)
		}
	}
}

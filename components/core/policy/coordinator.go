package policy

import "time"

// AppraiseCoordinator decides whether genuine Claims are those of a coordinator, for
// another coordinator: it runs in their app, under the pinned key provider, an OS image
// that the trust file names, on a machine whose TCB is tolerated. Which compose file it
// runs is not judged: coordinators are upgraded one after another, and whoever may
// upgrade the app has its keys.
func AppraiseCoordinator(ip ImagePolicy, appID string, c Claims, now time.Time) Decision {
	if err := ip.Validate(); err != nil {
		return deny(CodePolicyInvalid, "%v", err)
	}
	if appID == "" || c.AppID != appID {
		return deny(CodeAppIDMismatch, "it runs in app %.40s, the coordinators' is %.40s", c.AppID, appID)
	}
	if c.Simulated && !ip.AllowSimulated {
		return deny(CodeTEETypeForbidden, "the evidence comes from a simulated root, which this cluster does not name")
	}
	if c.AppComposeProblem != "" {
		return deny(CodeComposeForbidden, "app-compose.json: %s", c.AppComposeProblem)
	}
	for _, check := range []func() Decision{
		func() Decision { return keyProvider(ip, c) },
		func() Decision { return measured(ip, c) },
		func() Decision { return AppraiseTCB(ip.TCB, c.TCB, now) },
	} {
		if d := check(); d.Code != "" {
			return d
		}
	}
	return Decision{Allowed: true}
}

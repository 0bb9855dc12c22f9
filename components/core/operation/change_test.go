package operation

import "testing"

// TestACallRequestsOnlyItsChanges: a call does not request a disk that is already large enough, or an unchanged type. A
// call of another part requests no shape.
func TestACallRequestsOnlyItsChanges(t *testing.T) {
	wanted := Shape{InstanceType: "tdx.large", DiskGB: 40, OSImage: "dstack-0.5.8"}
	seen := func(s Shape) *PlatformView { return &PlatformView{Shape: s} }
	for name, c := range map[string]struct {
		part Part
		seen *PlatformView
		want Shape
	}{
		"nothing is seen":       {PartResources, nil, Shape{InstanceType: "tdx.large", DiskGB: 40}},
		"both change":           {PartResources, seen(Shape{InstanceType: "tdx.small", DiskGB: 20}), Shape{InstanceType: "tdx.large", DiskGB: 40}},
		"the disk is as large":  {PartResources, seen(Shape{InstanceType: "tdx.small", DiskGB: 40}), Shape{InstanceType: "tdx.large"}},
		"the disk is larger":    {PartResources, seen(Shape{InstanceType: "tdx.small", DiskGB: 80}), Shape{InstanceType: "tdx.large"}},
		"the type is there":     {PartResources, seen(Shape{InstanceType: "tdx.large", DiskGB: 20}), Shape{DiskGB: 40}},
		"the image":             {PartOSImage, seen(Shape{OSImage: "dstack-0.5.7"}), Shape{OSImage: "dstack-0.5.8"}},
		"the text, or no shape": {PartCompose, seen(Shape{}), Shape{}},
	} {
		op := Operation{Kind: Update, Call: Call{Part: c.part}}
		if got := op.change(Facts{Content: Content{WantedShape: wanted}, Platform: c.seen}); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

package sheet

import "testing"

func TestAddLeavesOutWhatIsEmpty(t *testing.T) {
	var f Facts
	f.Add("limit", "", "")
	f.Add("memory", "", "12 MiB")
	if len(f) != 1 || f[0].Name != "memory" || len(f[0].Texts) != 1 {
		t.Errorf("facts: %+v", f)
	}
	var s Sheet
	s.Add(Section{Title: "nothing", Blocks: []Block{
		nil,
		Facts{},
		(*Table)(nil), &Table{},
		Lines{},
		Commands{},
		Findings{},
		Listed{},
		Detail{},
		Detail{Facts{}},
		(*Rows)(nil), (*Field)(nil), (*Strips)(nil), (*Fold)(nil), (*Flame)(nil), &Rows{}, &Fold{Wall: 1},
	}})
	if len(s.Sections) != 0 {
		t.Errorf("an empty section is shown: %+v", s.Sections)
	}
	s.Add(Section{Title: "some", Blocks: []Block{Facts{}, f}})
	if len(s.Sections) != 1 || len(s.Sections[0].Blocks) != 1 {
		t.Errorf("sections: %+v", s.Sections)
	}
}

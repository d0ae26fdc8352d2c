"""Remarks on groups that are probably not what was meant."""

from fairanchor.audit._remarks import group_remarks


def test_names_in_several_spellings_are_listed_up_to_five():
    names = [spelling for k in range(7) for spelling in (f"Group {k}", f"group  {k} ")]
    remarks = group_remarks(names, [10] * len(names))
    assert all("they may be one group" in remark for remark in remarks[:5])
    assert [remark.split()[:3] for remark in remarks[5:]] == [["2", "more", "names"]]


def test_names_that_differ_are_not_remarked_on():
    assert group_remarks(["a", "b", None, ("a", "B"), ("b", "a")], [10] * 5) == []

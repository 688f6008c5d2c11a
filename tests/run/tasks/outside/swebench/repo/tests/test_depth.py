from soundings import in_metres


def test_metres_stay_as_they_are():
    assert in_metres("5 m") == 5.0


def test_fathoms_are_converted():
    assert in_metres("2 fm") == 3.6576

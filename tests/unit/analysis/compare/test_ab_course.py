"""The course of a live comparison, as its record tells it."""

from build import a_trial

from torchstone.analysis.compare.ab_course import Course, course_recorded, measured_share, threads_pinned


def test_the_course_of_a_record_is_read_from_its_trials():
    began = ("2026-11-21T10:00:00Z", "2026-11-21T10:00:02Z", "", "2026-11-21T10:00:30Z")
    facts = ((0, 1), (0, 1), (1, 2), (1, 2))
    trials = [
        a_trial(started_utc=utc, duration_s=5.0, facts={"pair": pair, "template": template})
        for utc, (pair, template) in zip(began, facts, strict=True)
    ]
    assert course_recorded(trials) == Course(2, 2, 35.0)
    assert course_recorded(trials[2:3]) == Course(1, 1, None), "a process that was never started"
    assert course_recorded(()) == Course(0, 0, None)


def test_a_share_of_more_than_all_the_time_is_not_told():
    trials = [a_trial(steady={"turn_time_s": [5.0, 2.5]})]
    assert measured_share(trials, 10.0) == 0.75
    assert measured_share(trials, 7.0) is None
    assert measured_share(trials, None) is None
    assert measured_share([a_trial()], 10.0) is None


def test_threads_are_pinned_as_far_as_those_of_the_fewest_are():
    trials = [a_trial(facts={"threads_pinned": cores}) for cores in (2, 1)]
    assert threads_pinned(trials) == 1
    assert threads_pinned([a_trial()]) is None

"""Old results are shown by their beginning and a number, and in full on request."""

from tests.build import call, do, play, reply, started
from tests.memory.long_runs import bill, cached, commands, output, results, whole, worked


def test_old_results_keep_their_beginning_and_say_how_to_see_the_rest():
    old = results(worked("expandable:50,keep=2,poll=1", 4, 500).view)
    assert old[0] == output(1, 500)[:50] + "\n[shortened: 50 of 500 characters; expand index 1 shows it whole]"
    assert old[2:] == [output(3, 500), output(4, 500)]


def test_a_result_that_would_not_get_shorter_stays():
    assert whole(worked("expandable:100,keep=1,poll=1", 5, 160).view, 160) == [1, 2, 3, 4, 5]


def test_expand_shows_the_result_as_it_was_recorded():
    asked, world = commands(6, 500)
    played = play(*asked, do("expand", index=2), start=started("expandable:50,keep=2,poll=1"), world=world)
    assert output(2, 500) in played.answer
    assert output(2, 500) not in "".join(results(played.asked[-2].view))


def test_what_was_expanded_is_shortened_again_and_can_be_expanded_again():
    asked, world = commands(8, 500)
    played = play(*asked[:4], do("expand", index=1), *asked[4:], do("expand", index=5),
                  start=started("expandable:50,keep=1,poll=1"), world=world)  # fmt: skip
    assert output(1, 500) in played.answer
    assert sum(output(1, 500) in text for text in results(played.view)) == 1


def test_an_index_that_nothing_has_is_refused_with_those_there_are():
    played = play(do("list_files"), do("expand", index=7), start=started("expandable"))
    assert "no result has the number 7; numbers go from 1 to 1" in played.answer


def test_results_of_one_reply_share_its_number():
    two = reply(call("list_files"), call("list_files"))
    played = play(two, do("expand", index=1), start=started("expandable"))
    assert played.answer.count("one call") >= 1


def test_shortening_in_steps_costs_less_than_shortening_at_every_step():
    slow, fast = (bill(cached(worked(f"expandable:400,keep=5,poll={poll}", 80, 1_500))) for poll in (5, 1))
    assert slow < fast

use rlhf_lab::demos::{demo::Demo, overopt, toy_rlhf};
use rlhf_lab::foundation::progress::Silent;
fn main() {
    for seed in 0..20 {
        let r = toy_rlhf::Config::default().run(seed, &Silent).unwrap();
        let o = overopt::Config::default().run(seed, &Silent).unwrap();
        let imp = r
            .implicit_reward
            .true_centered
            .iter()
            .zip(&r.implicit_reward.implicit_centered)
            .map(|(a, b)| (a - b).abs())
            .fold(0.0, f64::max);
        println!(
            "{seed} rf {:.4} dpo {:?} imp {imp:.3} trap {:.3} ipo {:.3} declined {} loose {:?} seen {} corr {:?}",
            r.reinforce.tv,
            r.dpo
                .rows
                .iter()
                .map(|x| (x.tv * 1e4).round() / 1e4)
                .collect::<Vec<_>>(),
            r.dpo_trap.rows.last().unwrap().kl,
            r.dpo_trap.ipo.last().unwrap().kl,
            o.declined,
            o.seed0.loose_from,
            o.seed0.n_seen,
            o.seed0.corr_weighted
        );
        if seed == 0 {
            println!("{}", serde_json::to_string(&r.closed_form.rows[3]).unwrap());
            for x in &o.seed0.rows {
                println!("{x:?}")
            }
            println!("{:?} {:?}", o.mean.proxy, o.mean.gold)
        }
    }
}
